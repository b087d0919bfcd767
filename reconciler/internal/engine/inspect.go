package engine

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// The functions in this file let tests inspect a running engine.

// Seed makes the jitter of an engine that has not started the same every time.
func (r *Engine) Seed(seed uint64) { r.random = rand.New(rand.NewPCG(seed, 0)).Float64 }

// OnMove sets a function that is called when a row changes its stage. It must be called before Run.
func (r *Engine) OnMove(fn func(from, to string)) { r.onMove = fn }

// Items describes the items in the queue of a running engine.
func (r *Engine) Items() (items []string) {
	_ = r.call(context.Background(), func(l *loop) {
		for _, key := range sortedKeys(l.queue.Items) {
			it, name := l.queue.Items[key], "a key that had no row"
			if it.Entry != nil {
				name = r.p.Table.KeyText(it.Entry)
			}
			items = append(items, fmt.Sprintf("%s stage=%v class=%v deleting=%t orphan=%t full=%t force=%t dirty=%t reasons=%v due=%v err=%v",
				name, it.Stage(), it.Class(), it.Deleting, it.Orphan, it.FullPass, it.Force, it.Dirty, it.Reasons, it.Due(), it.Err))
		}
	})
	return items
}

// Stage returns the stage of a row, given its encoded key.
func (r *Engine) Stage(key string) (stage string) {
	_ = r.call(context.Background(), func(l *loop) {
		stage = workqueue.Rest.String()
		if it := l.queue.Items[key]; it != nil {
			stage = it.Stage().String()
		}
		for _, out := range l.round.rows {
			if out.Open && keyOf(out.Entry) == key {
				stage = workqueue.InRound.String()
			}
		}
	})
	return stage
}

// Round returns how many rows the current round has.
func (r *Engine) Round() (n int) {
	_ = r.call(context.Background(), func(l *loop) { n = len(l.round.rows) })
	return n
}

// Stages returns the names of the stages.
func Stages() (names []string) {
	for s := range workqueue.Stages {
		names = append(names, s.String())
	}
	return names
}

// Classes returns the names of the priority classes.
func Classes() (names []string) {
	for c := range workqueue.Classes {
		names = append(names, c.String())
	}
	return names
}

// Waiting returns how many callers wait for rows.
func (r *Engine) Waiting() (n int) {
	_ = r.call(context.Background(), func(l *loop) {
		n = l.waiters.unread.Len() + l.waiters.tables.Len()
		for _, waiters := range l.waiters.rows {
			n += len(waiters)
		}
	})
	return n
}

// LooksAhead returns how many cursors look ahead in the feed.
func (r *Engine) LooksAhead() (n int) {
	_ = r.call(context.Background(), func(l *loop) {
		if l.limits.LooksAhead() {
			n = 1
		}
	})
	return n
}
