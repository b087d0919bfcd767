package reconciler

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Seed makes the jitter of a reconciler that has not started the same every time.
func (r *Reconciler[Obj]) Seed(seed uint64) { r.random = rand.New(rand.NewPCG(seed, 0)).Float64 }

// Items describes what is in the queue of a running reconciler.
func (r *Reconciler[Obj]) Items() (items []string) {
	_ = r.call(context.Background(), func(l *loop[Obj]) {
		for _, key := range sortedKeys(l.queue.items) {
			it := l.queue.items[key]
			items = append(items, fmt.Sprintf("%s state=%d lane=%v hold=%v deleting=%t surplus=%t full=%t force=%t dirty=%t reasons=%v due=%v err=%v",
				r.p.Table.Key(it.last), it.state, it.lane, it.hold, it.deleting, it.surplus, it.full, it.force, it.dirty, it.reasons, it.due, it.err))
		}
	})
	return items
}

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
