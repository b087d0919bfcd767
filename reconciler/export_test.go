package reconciler

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Seed makes the jitter of a reconciler that has not started the same every time.
func (r *Reconciler[Obj]) Seed(seed uint64) { r.random = rand.New(rand.NewPCG(seed, 0)).Float64 }

// OnMove has fn told when rows come from one stage to another. The reconciler must
// not have started.
func (r *Reconciler[Obj]) OnMove(fn func(from, to string)) { r.onMove = fn }

// Items describes what is in the queue of a running reconciler.
func (r *Reconciler[Obj]) Items() (items []string) {
	_ = r.call(context.Background(), func(l *loop[Obj]) {
		for _, key := range sortedKeys(l.queue.items) {
			it, name := l.queue.items[key], "a key that had no row"
			if it.known {
				name = r.p.Table.Key(it.last)
			}
			items = append(items, fmt.Sprintf("%s state=%d lane=%v hold=%v deleting=%t surplus=%t full=%t force=%t dirty=%t reasons=%v due=%v err=%v",
				name, it.state, it.lane, it.hold, it.deleting, it.surplus, it.full, it.force, it.dirty, it.reasons, it.due, it.err))
		}
	})
	return items
}

// Stage is where a row is on its way, by its encoded key.
func (r *Reconciler[Obj]) Stage(key string) (stage string) {
	_ = r.call(context.Background(), func(l *loop[Obj]) {
		stage = stageRest
		if it := l.queue.items[key]; it != nil {
			stage = it.stage()
		}
		for _, out := range l.round.rows {
			if out.open && r.p.Table.KeyQuery(out.obj).Encoded() == key {
				stage = stageRound
			}
		}
	})
	return stage
}

// Round is how many rows the round under way has.
func (r *Reconciler[Obj]) Round() (n int) {
	_ = r.call(context.Background(), func(l *loop[Obj]) { n = len(l.round.rows) })
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

// Waiting is how many wait for rows of a running reconciler.
func (r *Reconciler[Obj]) Waiting() (n int) {
	_ = r.call(context.Background(), func(l *loop[Obj]) {
		n = l.waits.unread.Len() + l.waits.tables.Len()
		for _, waiters := range l.waits.rows {
			n += len(waiters)
		}
	})
	return n
}
