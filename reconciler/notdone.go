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

func newLedger[Obj any](p *Params[Obj]) *ledger[Obj] {
	return &ledger[Obj]{p: p, touched: map[string]NotDone{}, listed: map[string]bool{}, next: time.Now()}
}

// note records how it stands with an item.
func (l *ledger[Obj]) note(it *item[Obj]) {
	if l.p.NotDone == nil {
		return
	}
	key := l.p.Table.Key(it.last)
	row := NotDone{Reconciler: l.p.Name, Key: key}
	if it.err != nil || !it.due.IsZero() {
		row.Table, row.Operation, row.Attempts, row.NextDue = l.p.Table.Name(), "update", it.attempts, it.due
		if it.deleting {
			row.Operation = "delete"
		}
		if it.err != nil {
			row.LastError = it.err.Error()
		}
	}
	if row.Operation != "" || l.listed[key] || l.touched[key].Operation != "" {
		l.touched[key] = row
	}
}

// dueAt returns when there is something to write, or zero.
func (l *ledger[Obj]) dueAt() time.Time {
	if len(l.touched) == 0 {
		return time.Time{}
	}
	return l.next
}

// write adds what was noted to a transaction on the table.
func (l *ledger[Obj]) write(txn *statedb.WriteTxn) error {
	for key, row := range l.touched {
		var err error
		if row.Operation == "" {
			_, _, err = l.p.NotDone.Delete(txn, row)
		} else {
			_, _, err = l.p.NotDone.Insert(txn, row)
		}
		if err != nil {
			return err
		}
		l.listed[key] = row.Operation != ""
	}
	return nil
}

// written says that the transaction was committed at now.
func (l *ledger[Obj]) written(now time.Time) {
	for key := range l.touched {
		if !l.listed[key] {
			delete(l.listed, key)
		}
	}
	clear(l.touched)
	l.next = now.Add(notDonePeriod)
}
