package engine

import (
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

const (
	// roundPatience is how long none of the rows of a round may end before they
	// become items of the queue.
	roundPatience = 10 * time.Millisecond
	// roundLimit is how long the rows of a round may be under way before they do so
	// in any case.
	roundLimit = 100 * time.Millisecond
)

// round is what one look at the feed found to be done: changed rows that need
// nothing but an Update. Their keys are in no map, which is what makes it fast;
// nothing else is read from the feed before each has had its status written, so
// that none of them can be in two hands. A round that takes long is given up:
// what is left of it becomes items.
type round struct {
	rows []pool.Task
	left [][]pool.Task // parts of rows that no worker was given
	more int           // how many those are
	open int           // rows that are not settled
	txn  store.ReadTxn // the snapshot of the rows
	at   time.Time
	last time.Time // when one of the rows ended; at first, at
}

// begin makes the rows of txn that are added from now on the round.
func (r *round) begin(txn store.ReadTxn, now time.Time) {
	clear(r.rows)
	*r = round{rows: r.rows[:0], left: r.left[:0], txn: txn, at: now, last: now}
}

func (r *round) add(e *store.Entry) {
	r.rows = append(r.rows, pool.Task{Entry: e, Open: true})
}

// ready lets workers have the rows.
func (r *round) ready() {
	r.open = len(r.rows)
	r.giveBack(r.rows)
}

// take returns up to n rows that no worker has.
func (r *round) take(n int) []pool.Task {
	part := r.left[0]
	if n < len(part) {
		r.left[0] = part[n:]
		part = part[:n]
	} else {
		r.left = r.left[1:]
	}
	r.more -= len(part)
	return part
}

func (r *round) giveBack(rows []pool.Task) {
	if len(rows) > 0 {
		r.left = append(r.left, rows)
		r.more += len(rows)
	}
}

// givenUpAt is when the round is given up unless one of its rows ends before.
func (r *round) givenUpAt() time.Time {
	return earliest(r.last.Add(roundPatience), r.at.Add(roundLimit))
}

// giveUpRound makes items of the rows of the round that are not settled.
func (l *loop) giveUpRound(now time.Time) {
	l.collectAll(now)
	l.flush(now)
	for _, out := range l.commit.outcomes { // their table is locked by others
		if out.Open {
			l.adopt(out, workqueue.Committing)
			out.Open = false
		}
	}
	for _, w := range l.pool.All() {
		if b := w.Batch; b != nil && b.OfRound {
			l.round.giveBack(b.TakeBack())
			inHand := b.Uncollected()
			for i := range inHand {
				l.adopt(&inHand[i], workqueue.Running)
				inHand[i].Open = false
			}
			b.OfRound = false
		}
	}
	for _, part := range l.round.left {
		for i := range part {
			l.enqueue(l.adopt(&part[i], workqueue.InRound), workqueue.Changes, workqueue.Change, l.round.at)
		}
	}
	l.round = round{}
}

// closeRow says that a row needs the round no longer.
func (l *loop) closeRow(out *pool.Task) {
	if out.Open {
		out.Open = false
		l.round.open--
	}
}

// adopt makes an item of a row of the round.
func (l *loop) adopt(out *pool.Task, stage workqueue.Stage) *workqueue.Item {
	it := l.queue.Adopt(keyOf(out.Entry))
	it.Entry = out.Entry
	it.Ran = workqueue.Change
	out.Item = it
	it.Present = true
	if stage != workqueue.InRound {
		l.queue.Move(it, stage)
	}
	l.waits.owe(it)
	return it
}
