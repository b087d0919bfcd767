package reconciler

import (
	"time"

	"github.com/statehive/statehive/statedb"
)

// NotDone is a row that a reconciler is not done with, because an operation
// failed or is to be repeated. Rows that are merely new are not listed.
type NotDone struct {
	Reconciler string    `json:"reconciler"`
	Table      string    `json:"table"`
	Key        string    `json:"key"`       // of the row, as text
	Operation  string    `json:"operation"` // update or delete
	Attempts   int       `json:"attempts"`  // failed ones in a row
	LastError  string    `json:"lastError"`
	NextDue    time.Time `json:"nextDue,omitzero"` // zero: not before the row changes
}

// NotDoneKey identifies a [NotDone] row.
type NotDoneKey struct{ Reconciler, Key string }

// NotDoneByKey is the primary index of the table of [NotDoneSchema].
var NotDoneByKey = statedb.NewIndex("key", func(n NotDone) NotDoneKey {
	return NotDoneKey{n.Reconciler, n.Key}
})

// NotDoneSchema declares the table of what is not done, empty when all is well.
// Reconcilers write it, at most once a second each.
func NotDoneSchema() statedb.Schema[NotDone] {
	return statedb.Schema[NotDone]{Name: "not-done", Primary: NotDoneByKey, Equal: func(a, b NotDone) bool {
		due := a.NextDue.Equal(b.NextDue)
		a.NextDue, b.NextDue = time.Time{}, time.Time{}
		return due && a == b
	}}
}

// notDonePeriod is the shortest time between two writes of the table.
const notDonePeriod = time.Second

// ledger keeps a reconciler's part of the not-done table.
type ledger[Obj any] struct {
	p       *Params[Obj]
	touched map[string]NotDone // to be written, or removed if the operation is empty
	listed  map[string]bool    // the keys, as text, that are in the table
	next    time.Time          // when it may be written again
}

// newLedger takes over what an earlier run has left in the table: it is removed
// unless it is found not to be done again.
func newLedger[Obj any](p *Params[Obj]) *ledger[Obj] {
	l := &ledger[Obj]{p: p, touched: map[string]NotDone{}, listed: map[string]bool{}, next: time.Now()}
	if p.NotDone == nil {
		return l
	}
	for row := range p.NotDone.All(p.DB.ReadTxn()) {
		if row.Reconciler == p.Name {
			l.listed[row.Key] = true
			l.touched[row.Key] = NotDone{Reconciler: p.Name, Key: row.Key}
		}
	}
	return l
}

// note records how it stands with an item.
func (l *ledger[Obj]) note(it *item[Obj]) {
	notable := it.err != nil || !it.due.IsZero() && !it.debouncing || it.hold != holdNone
	if l.p.NotDone == nil || !notable && !it.noted {
		return
	}
	it.noted = notable
	key := l.p.Table.Key(it.last)
	row := NotDone{Reconciler: l.p.Name, Key: key}
	if notable {
		row.Table, row.Operation, row.Attempts, row.NextDue = l.p.Table.Name(), "update", it.attempts, it.due
		if it.deleting {
			row.Operation = "delete"
		}
		if it.err != nil {
			row.LastError = it.err.Error()
		}
	}
	if notable || l.listed[key] {
		l.touched[key] = row
	} else {
		delete(l.touched, key) // it was never written
	}
}

// pending says whether there is something to write.
func (l *ledger[Obj]) pending() bool { return len(l.touched) > 0 }

// dueAt returns when there is something to write, or zero.
func (l *ledger[Obj]) dueAt() time.Time {
	if !l.pending() {
		return time.Time{}
	}
	return l.next
}

// write adds what was noted to a transaction on the table.
func (l *ledger[Obj]) write(txn *statedb.WriteTxn) error {
	for _, row := range l.touched {
		var err error
		if row.Operation == "" {
			_, _, err = l.p.NotDone.Delete(txn, row)
		} else {
			_, _, err = l.p.NotDone.Insert(txn, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// attempted says that a transaction with write has ended at now. If it failed,
// what it should have written stays to be written.
func (l *ledger[Obj]) attempted(now time.Time, err error) {
	l.next = now.Add(notDonePeriod)
	if err != nil {
		return
	}
	for key, row := range l.touched {
		if row.Operation == "" {
			delete(l.listed, key)
		} else {
			l.listed[key] = true
		}
	}
	clear(l.touched)
}
