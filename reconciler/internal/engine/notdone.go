package engine

import (
	"errors"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
	"github.com/statehive/statehive/statedb"
)

// NotDone is a row that a reconciler is not done with, because an operation
// failed or is to be repeated, or something holds it. Rows that are merely new
// are not listed.
type NotDone struct {
	Reconciler string `json:"reconciler"`
	Table      string `json:"table"`
	Key        string `json:"key"`       // of the row, as text
	Operation  string `json:"operation"` // update or delete
	// State is error, deleting (gone from the table, and Delete has failed),
	// stuck, paused, held (by the limit), waiting (for another row), drift (it differs
	// from what is observed), or again (its target asked for it).
	State     string    `json:"state"`
	Attempts  int       `json:"attempts"` // failed ones in a row
	LastError string    `json:"lastError"`
	NextDue   time.Time `json:"nextDue,omitzero"` // zero: not before something else happens
	WaitsFor  string    `json:"waitsFor"`
	Reasons   string    `json:"reasons"` // why it is to be run, or why it last ran
}

// NotDoneKey identifies a [NotDone] row.
type NotDoneKey struct{ Reconciler, Key string }

// NotDoneByKey is the primary index of the table of [NotDoneSchema].
var NotDoneByKey = statedb.NewIndex("key", func(n NotDone) NotDoneKey {
	return NotDoneKey{n.Reconciler, n.Key}
})

// NotDoneSchema declares the table of what is not done, empty when all is well.
// Reconcilers write it together with the statuses, each key at most once a second.
func NotDoneSchema() statedb.Schema[NotDone] {
	return statedb.Schema[NotDone]{Name: "not-done", Primary: NotDoneByKey, Equal: NotDone.equal}
}

func (n NotDone) equal(other NotDone) bool {
	due := n.NextDue.Equal(other.NextDue)
	n.NextDue, other.NextDue = time.Time{}, time.Time{}
	return due && n == other
}

// gone says that n stands for the removal of the row.
func (n NotDone) gone() bool { return n.Operation == "" }

// terminal says that n stands for a row that was tried and will not be tried again.
// No NextDue alone does not say so: one that is to be run at once has none either.
func (n NotDone) terminal() bool { return n.State == notDoneError && n.WaitsFor == terminalWait }

// notDoneError is the State of a row whose Update has failed.
const notDoneError = "error"

// notDoneStates are the States of rows that are held, or in hand for too long.
var notDoneStates = map[workqueue.Stage]string{
	workqueue.Stuck: "stuck", workqueue.Paused: "paused", workqueue.Limit: "held",
	workqueue.Dependency: "waiting", workqueue.Order: "waiting", workqueue.Drift: "drift",
}

// notDoneState is the State of an item's row.
func notDoneState(it *workqueue.Item) string {
	switch state := notDoneStates[it.Stage()]; {
	case state != "":
		return state
	case it.Deleting:
		return "deleting"
	case it.Err != nil:
		return notDoneError
	default:
		return workqueue.Again.String()
	}
}

// notDone returns the row of the table for an item, which stands for a removal
// if there is nothing to be said of it.
func (l *ledger) notDone(it *workqueue.Item) NotDone {
	row := NotDone{Reconciler: l.p.Name, Key: l.p.Table.KeyText(it.Entry)}
	if !it.NotDone() {
		return row
	}
	row.Table, row.Operation, row.State = l.p.Table.Name(), pool.Update.String(), notDoneState(it)
	row.Attempts, row.NextDue = it.Attempts, it.Due()
	if row.Reasons = it.Reasons.String(); it.Reasons == 0 {
		row.Reasons = it.Ran.String()
	}
	if it.Deleting {
		row.Operation = pool.Delete.String()
	}
	if it.Err != nil {
		row.LastError = it.Err.Error()
	}
	switch stage := it.Stage(); {
	case stage == workqueue.Stuck:
		row.WaitsFor = "the return of its operation"
	case stage.Waiting():
		row.WaitsFor = waitOf(it).Text
	}
	return row
}

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

// notable says that the not-done table may have to be told of an update.
func notable(out *pool.Task) bool {
	return out.Kind == pool.Update && (out.Err != nil || out.Result.Again > 0 || out.Item != nil && out.Item.Noted)
}

// writeForecast adds to the transaction that writes statuses what the rows of the
// not-done table will be, so that both are seen together, and returns it. When a
// row then takes another way the ledger finds out and writes it again.
func (l *loop) writeForecast(txn *store.WriteTxn, outcomes []*pool.Task, now time.Time) (noted []NotDone) {
	for _, out := range outcomes {
		if !notable(out) || out.Outdated || out.Stuck || isStatusError(out.Err) {
			continue
		}
		row := l.forecast(out, now)
		if !l.ledger.isNews(row, now) {
			continue
		}
		if err := l.ledger.put(txn, row); err != nil {
			l.health.concern(ledgerTrouble, err)
			l.r.p.Logger.Error("the not-done table could not be written", "reconciler", l.r.p.Name, "key", row.Key, "error", err)
			continue
		}
		noted = append(noted, row)
	}
	return noted
}

// forecast is the row of the not-done table for an update that has ended.
func (l *loop) forecast(out *pool.Task, now time.Time) NotDone {
	it := &workqueue.Item{Entry: out.Entry, Ran: workqueue.Change, Failures: workqueue.Failures{Err: out.Err}}
	if out.Item != nil {
		it.Ran, it.Attempts = out.Item.Ran, out.Item.Attempts
	}
	if it.Attempts++; out.Err == nil {
		it.Attempts = 0
	}
	it.Preview(l.r.backoff().Next(out, it.Attempts, now))
	return l.ledger.notDone(it)
}
