package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// The functions of this file show tests what is inside a running engine.

// Seed makes the jitter of an engine that has not started the same every time.
func (r *Engine) Seed(seed uint64) { r.random = rand.New(rand.NewPCG(seed, 0)).Float64 }

// OnMove has fn told when rows come from one stage to another. The engine must
// not have started.
func (r *Engine) OnMove(fn func(from, to string)) { r.onMove = fn }

// Items describes what is in the queue of a running engine.
func (r *Engine) Items() (items []string) {
	_ = r.call(context.Background(), func(l *loop) {
		for _, key := range sortedKeys(l.queue.items) {
			it, name := l.queue.items[key], "a key that had no row"
			if it.entry != nil {
				name = r.p.Table.KeyText(it.entry)
			}
			items = append(items, fmt.Sprintf("%s state=%d lane=%v hold=%v deleting=%t surplus=%t full=%t force=%t dirty=%t reasons=%v due=%v err=%v",
				name, it.state, it.lane, it.hold, it.deleting, it.surplus, it.full, it.force, it.dirty, it.reasons, it.due, it.err))
		}
	})
	return items
}

// Stage is where a row is on its way, by its encoded key.
func (r *Engine) Stage(key string) (stage string) {
	_ = r.call(context.Background(), func(l *loop) {
		stage = stageRest
		if it := l.queue.items[key]; it != nil {
			stage = it.stage()
		}
		for _, out := range l.round.rows {
			if out.open && keyOf(out.entry) == key {
				stage = stageRound
			}
		}
	})
	return stage
}

// Round is how many rows the round under way has.
func (r *Engine) Round() (n int) {
	_ = r.call(context.Background(), func(l *loop) { n = len(l.round.rows) })
	return n
}

// Stages are those that a row can be in.
func Stages() []string {
	return append([]string{
		stageRest, stageRound, stageQueued, stageRunning, stageStuck, stageCommitting,
		stageBackoff, stageTerminal, stageAgain, stageDebounce, stageSettle, stageUnread,
	}, holdNames[holdNone+1:]...)
}

// Lanes are the names of the lanes.
func Lanes() []string { return laneNames[:] }

// Waiting is how many wait for rows of a running engine.
func (r *Engine) Waiting() (n int) {
	_ = r.call(context.Background(), func(l *loop) {
		n = l.waits.unread.Len() + l.waits.tables.Len()
		for _, waiters := range l.waits.rows {
			n += len(waiters)
		}
	})
	return n
}

// Scouts is how many cursors look ahead in the feed.
func (r *Engine) Scouts() (n int) {
	_ = r.call(context.Background(), func(l *loop) {
		if l.blast.scout != nil {
			n = 1
		}
	})
	return n
}
