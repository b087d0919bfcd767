package engine

import (
	"errors"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// notDonePeriod is the shortest time between two writes of a key of the not-done
// table.
const notDonePeriod = time.Second

// ledgerTrouble is what health says when the table cannot be written.
const ledgerTrouble = "what is not done cannot be written"

// ledger keeps a reconciler's part of the not-done table. It belongs to the
// deciding goroutine.
type ledger struct {
	p       *Params
	touched map[string]NotDone // by key as text: to be written
	later   map[string]NotDone // likewise, but their keys were written just now
	written map[string]written // what the table says, and what was removed just now
	sweepAt time.Time          // when to look at what is to be written later
	removed bool               // the sweep has removals to forget
	notNow  time.Time          // not before, because a write failed
	lock    lockRequest
}

// written is the last write of a key.
type written struct {
	row NotDone
	at  time.Time
}

// newLedger takes over what an earlier run has left in the table: it is removed
// unless it is found not to be done again.
func newLedger(p *Params) *ledger {
	l := &ledger{p: p, touched: map[string]NotDone{}, later: map[string]NotDone{}, written: map[string]written{}}
	if p.NotDone == nil {
		return l
	}
	l.lock.table = p.NotDone
	for row := range p.NotDone.All(p.DB.ReadTxn()) {
		if row.Reconciler == p.Name {
			l.written[row.Key] = written{row: row}
			l.touched[row.Key] = NotDone{Reconciler: p.Name, Key: row.Key}
		}
	}
	return l
}

// note records how it stands with an item. There is nothing to be said of one
// whose row was never seen: nothing has been done about it.
func (l *ledger) note(it *workqueue.Item) {
	if l.p.NotDone == nil || it.Entry == nil {
		return
	}
	notable := it.NotDone()
	nothing := !notable && !it.Noted && len(l.written)+len(l.touched)+len(l.later) == 0
	if nothing {
		return
	}
	it.Noted = notable
	l.record(l.notDone(it), time.Now())
}

// record has a row written, unless the table says so already.
func (l *ledger) record(row NotDone, now time.Time) {
	delete(l.touched, row.Key)
	delete(l.later, row.Key)
	last, known := l.written[row.Key]
	switch {
	case !known && row.gone(), known && last.row.equal(row):
	case now.Sub(last.at) >= notDonePeriod:
		l.touched[row.Key] = row
	default:
		if len(l.later) == 0 && !l.removed {
			l.sweepAt = last.at.Add(notDonePeriod)
		}
		l.later[row.Key] = row
	}
}

// dueAt returns when there is something to write, or zero.
func (l *ledger) dueAt() time.Time {
	switch {
	case l.lock.waiting():
		return time.Time{}
	case len(l.touched) == 0 && len(l.later) == 0 && !l.removed:
		return time.Time{}
	case len(l.touched) == 0 && l.sweepAt.After(l.notNow):
		return l.sweepAt
	case l.notNow.IsZero():
		return time.Unix(0, 0) // at once
	default:
		return l.notNow
	}
}

// sweep makes due what was put off, and forgets removals that were long ago.
func (l *ledger) sweep(now time.Time) {
	if now.Before(l.sweepAt) {
		return
	}
	l.sweepAt, l.removed = now.Add(notDonePeriod), false
	for key, row := range l.later {
		if now.Sub(l.written[key].at) >= notDonePeriod {
			l.touched[key] = row
			delete(l.later, key)
		}
	}
	for key, last := range l.written {
		switch {
		case !last.row.gone():
		case now.Sub(last.at) >= notDonePeriod:
			delete(l.written, key)
		default:
			l.removed = true
		}
	}
}

// hurry makes everything due: the reconciler ends.
func (l *ledger) hurry() {
	for key, row := range l.later {
		l.touched[key] = row
	}
	clear(l.later)
}

// write adds what is due to a transaction on the table.
func (l *ledger) write(txn *store.WriteTxn) error {
	for _, row := range l.touched {
		if err := l.put(txn, row); err != nil {
			return err
		}
	}
	return nil
}

func (l *ledger) put(txn *store.WriteTxn, row NotDone) (err error) {
	if row.gone() {
		_, _, err = l.p.NotDone.Delete(txn, row)
	} else {
		_, _, err = l.p.NotDone.Insert(txn, row)
	}
	return err
}

// failedIn says that an error is about the table, such as that it was dropped.
func (l *ledger) failedIn(err error) bool {
	var of *store.TableError
	return errors.As(err, &of) && of.Table == l.p.NotDone.Name()
}

// failed says that a transaction with write has failed: what it should have written
// stays to be written.
func (l *ledger) failed(now time.Time) { l.notNow = now.Add(notDonePeriod) }

// succeeded says that a transaction with write has succeeded.
func (l *ledger) succeeded(now time.Time) {
	l.notNow = time.Time{}
	for _, row := range l.touched {
		l.wrote(row, now)
	}
}

// wrote says that the table has a row, or that it is removed from it.
func (l *ledger) wrote(row NotDone, now time.Time) {
	delete(l.touched, row.Key)
	delete(l.later, row.Key)
	l.written[row.Key] = written{row, now}
	if row.gone() && !l.removed {
		l.removed = true
		if len(l.later) == 0 {
			l.sweepAt = now.Add(notDonePeriod)
		}
	}
}

// isNews says that the table may and should be told of a row now.
func (l *ledger) isNews(row NotDone, now time.Time) bool {
	last, known := l.written[row.Key]
	return now.Sub(last.at) >= notDonePeriod && !last.row.equal(row) && (known || !row.gone())
}
