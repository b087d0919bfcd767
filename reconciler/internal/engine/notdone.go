package engine

import (
	"errors"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
	"github.com/statehive/statehive/statedb"
)

// NotDone is an entry of the not-done table: a row that is not done because an operation failed or
// is to be repeated, or because the row is held. Rows that are merely pending are not listed.
type NotDone struct {
	Reconciler string `json:"reconciler"`
	Table      string `json:"table"`
	Key        string `json:"key"`       // of the row, as text
	Operation  string `json:"operation"` // update or delete
	// State is error, deleting (gone from the table, and Delete has failed), stuck, paused,
	// held (by a change limit), waiting (for another row), drift (it differs from the observed
	// state), or again (the target asked for another run).
	State     string    `json:"state"`
	Attempts  int       `json:"attempts"` // consecutive failures
	LastError string    `json:"lastError"`
	NextDue   time.Time `json:"nextDue,omitzero"` // zero: not scheduled
	WaitsFor  string    `json:"waitsFor"`
	Reasons   string    `json:"reasons"` // why it will run, or else why it last ran
}

// NotDoneKey identifies a [NotDone] row.
type NotDoneKey struct{ Reconciler, Key string }

// NotDoneByKey is the primary index of the table of [NotDoneSchema].
var NotDoneByKey = statedb.NewIndex("key", func(n NotDone) NotDoneKey {
	return NotDoneKey{n.Reconciler, n.Key}
})

// NotDoneSchema declares the table of rows that are not done, which is empty when all is well.
// Reconcilers write it along with the statuses, each key at most once a second.
func NotDoneSchema() statedb.Schema[NotDone] {
	return statedb.Schema[NotDone]{Name: "not-done", Primary: NotDoneByKey, Equal: NotDone.equal}
}

func (n NotDone) equal(other NotDone) bool {
	due := n.NextDue.Equal(other.NextDue)
	n.NextDue, other.NextDue = time.Time{}, time.Time{}
	return due && n == other
}

// gone reports whether n stands for the removal of the row.
func (n NotDone) gone() bool { return n.Operation == "" }

// terminal reports whether the row has failed for good. A zero NextDue is not enough to tell:
// a row that is about to run has none either.
func (n NotDone) terminal() bool { return n.State == notDoneError && n.WaitsFor == terminalWait }

// notDoneError is the State of a row whose Update has failed.
const notDoneError = "error"

// notDoneStates are the States of rows that are held or stuck.
var notDoneStates = map[workqueue.Stage]string{
	workqueue.Stuck: "stuck", workqueue.Paused: "paused", workqueue.Limit: "held",
	workqueue.Dependency: "waiting", workqueue.Order: "waiting", workqueue.Drift: "drift",
}

// notDoneState returns the State of an item's row.
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

// row returns the table's row for an item: a removal if the item is not to be listed.
func (w *notDoneWriter) row(it *workqueue.Item) NotDone {
	row := NotDone{Reconciler: w.p.Name, Key: w.p.Table.KeyText(it.Entry)}
	if !it.NotDone() {
		return row
	}
	row.Table, row.Operation, row.State = w.p.Table.Name(), pool.Update.String(), notDoneState(it)
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
	if it.Stage() == workqueue.Order {
		row.NextDue = time.Time{} // what is due is only another look at what it waits for
	}
	return row
}

// notDonePeriod is the shortest time between two writes of a key.
const notDonePeriod = time.Second

// notDoneProblem is what health reports when the table cannot be written.
const notDoneProblem = "the not-done table cannot be written"

// notDoneWriter writes a reconciler's rows of the not-done table. It belongs to the loop.
type notDoneWriter struct {
	p       *Params
	touched map[string]NotDone // to be written, by key as text
	later   map[string]NotDone // to be written once notDonePeriod has passed since the last write
	written map[string]written // the contents of the table, and recent removals
	sweepAt time.Time          // when to check later again
	removed bool               // written has removals
	notNow  time.Time          // no write before this time, because one failed
	lock    lockRequest
}

// written is the last write of a key.
type written struct {
	row NotDone
	at  time.Time
}

// newNotDoneWriter returns a writer that takes over the rows that an earlier run has left in the
// table. They are removed unless it turns out that they are still not done.
func newNotDoneWriter(p *Params) *notDoneWriter {
	w := &notDoneWriter{p: p, touched: map[string]NotDone{}, later: map[string]NotDone{}, written: map[string]written{}}
	if p.NotDone == nil {
		return w
	}
	w.lock.table = p.NotDone
	for row := range p.NotDone.All(p.DB.ReadTxn()) {
		if row.Reconciler == p.Name {
			w.written[row.Key] = written{row: row}
			w.touched[row.Key] = NotDone{Reconciler: p.Name, Key: row.Key}
		}
	}
	return w
}

// note schedules a write of the row for an item if it has changed. An item whose row was never
// seen is not listed: no operation has run on it.
func (w *notDoneWriter) note(it *workqueue.Item) {
	if w.p.NotDone == nil || it.Entry == nil {
		return
	}
	notable := it.NotDone()
	nothing := !notable && !it.Noted && len(w.written)+len(w.touched)+len(w.later) == 0
	if nothing {
		return
	}
	it.Noted = notable
	w.record(w.row(it), time.Now())
}

// record schedules a write of a row, unless the table has it already.
func (w *notDoneWriter) record(row NotDone, now time.Time) {
	delete(w.touched, row.Key)
	delete(w.later, row.Key)
	last, known := w.written[row.Key]
	switch {
	case !known && row.gone(), known && last.row.equal(row):
	case now.Sub(last.at) >= notDonePeriod:
		w.touched[row.Key] = row
	default:
		if len(w.later) == 0 && !w.removed {
			w.sweepAt = last.at.Add(notDonePeriod)
		}
		w.later[row.Key] = row
	}
}

// dueAt returns when there is something to write, or zero.
func (w *notDoneWriter) dueAt() time.Time {
	switch {
	case w.lock.waiting():
		return time.Time{}
	case len(w.touched) == 0 && len(w.later) == 0 && !w.removed:
		return time.Time{}
	case len(w.touched) == 0 && w.sweepAt.After(w.notNow):
		return w.sweepAt
	case w.notNow.IsZero():
		return time.Unix(0, 0) // at once
	default:
		return w.notNow
	}
}

// sweep makes postponed rows due, and forgets old removals.
func (w *notDoneWriter) sweep(now time.Time) {
	if now.Before(w.sweepAt) {
		return
	}
	w.sweepAt, w.removed = now.Add(notDonePeriod), false
	for key, row := range w.later {
		if now.Sub(w.written[key].at) >= notDonePeriod {
			w.touched[key] = row
			delete(w.later, key)
		}
	}
	for key, last := range w.written {
		switch {
		case !last.row.gone():
		case now.Sub(last.at) >= notDonePeriod:
			delete(w.written, key)
		default:
			w.removed = true
		}
	}
}

// hurry makes everything due, because the reconciler stops.
func (w *notDoneWriter) hurry() {
	for key, row := range w.later {
		w.touched[key] = row
	}
	clear(w.later)
}

// write adds what is due to a transaction on the table.
func (w *notDoneWriter) write(txn *store.WriteTxn) error {
	for _, row := range w.touched {
		if err := w.put(txn, row); err != nil {
			return err
		}
	}
	return nil
}

func (w *notDoneWriter) put(txn *store.WriteTxn, row NotDone) (err error) {
	if row.gone() {
		_, _, err = w.p.NotDone.Delete(txn, row)
	} else {
		_, _, err = w.p.NotDone.Insert(txn, row)
	}
	return err
}

// failedIn reports whether an error is about this table, for example because it was dropped.
func (w *notDoneWriter) failedIn(err error) bool {
	var of *store.TableError
	return errors.As(err, &of) && of.Table == w.p.NotDone.Name()
}

// failed is called when a transaction with write has failed. Its rows remain to be written.
func (w *notDoneWriter) failed(now time.Time) { w.notNow = now.Add(notDonePeriod) }

// succeeded is called when a transaction with write has been committed.
func (w *notDoneWriter) succeeded(now time.Time) {
	w.notNow = time.Time{}
	for _, row := range w.touched {
		w.wrote(row, now)
	}
}

// wrote records that a row was written to the table, or removed from it.
func (w *notDoneWriter) wrote(row NotDone, now time.Time) {
	delete(w.touched, row.Key)
	delete(w.later, row.Key)
	w.written[row.Key] = written{row, now}
	if row.gone() && !w.removed {
		w.removed = true
		if len(w.later) == 0 {
			w.sweepAt = now.Add(notDonePeriod)
		}
	}
}

// isNews reports whether a row differs from the table and may be written now.
func (w *notDoneWriter) isNews(row NotDone, now time.Time) bool {
	last, known := w.written[row.Key]
	return now.Sub(last.at) >= notDonePeriod && !last.row.equal(row) && (known || !row.gone())
}

// notable reports whether an update may change the not-done table.
func notable(out *pool.Task) bool {
	return out.Kind == pool.Update && (out.Err != nil || out.Result.Again > 0 || out.Item != nil && out.Item.Noted)
}

// writeForecast adds the expected rows of the not-done table to the transaction that writes
// statuses, so that readers see both change at the same time, and returns them. If a row turns out
// differently, note writes it again.
func (l *loop) writeForecast(txn *store.WriteTxn, outcomes []*pool.Task, now time.Time) (noted []NotDone) {
	for _, out := range outcomes {
		if !notable(out) || out.Outdated || out.Stuck || isStatusError(out.Err) {
			continue
		}
		row := l.forecast(out, now)
		if !l.notDone.isNews(row, now) {
			continue
		}
		if err := l.notDone.put(txn, row); err != nil {
			l.health.concern(notDoneProblem, err)
			l.r.p.Logger.Error("the not-done table could not be written", "reconciler", l.r.p.Name, "key", row.Key, "error", err)
			continue
		}
		noted = append(noted, row)
	}
	return noted
}

// forecast returns the expected row of the not-done table for an update that has ended.
func (l *loop) forecast(out *pool.Task, now time.Time) NotDone {
	it := &workqueue.Item{Entry: out.Entry, Ran: workqueue.Change, Failures: workqueue.Failures{Err: out.Err}}
	if out.Item != nil {
		it.Ran, it.Attempts = out.Item.Ran, out.Item.Attempts
	}
	if it.Attempts++; out.Err == nil {
		it.Attempts = 0
	}
	it.Preview(l.r.backoff().Next(out, it.Attempts, now))
	return l.notDone.row(it)
}

func (l *loop) notDoneDue(now time.Time) bool {
	due := l.notDone.dueAt()
	return !due.IsZero() && !now.Before(due)
}

// commitNotDone writes the rows that are due, or requests the table's lock if others hold it.
func (l *loop) commitNotDone(now time.Time) {
	if len(l.notDone.touched) == 0 {
		return
	}
	txn, err := l.r.p.DB.TryWriteTxn(l.r.p.NotDone)
	if txn == nil && err == nil {
		l.notDone.lock.ask(l.r.p.DB, now)
		return
	}
	l.writeNotDone(txn, err, now)
}

// notDoneGranted is called when the not-done table's lock was granted.
func (l *loop) notDoneGranted(g grant, now time.Time) {
	l.notDone.lock.end()
	l.writeNotDone(g.txn, g.err, now)
}

func (l *loop) writeNotDone(txn *store.WriteTxn, err error, now time.Time) {
	if err == nil {
		defer txn.Abort()
		if err = l.notDone.write(txn); err == nil {
			_, err = txn.Commit()
		}
	}
	l.unlocked(&l.notDone.lock, notDoneProblem)
	if err != nil {
		l.notDoneFailed(now, err)
		return
	}
	l.health.concern(notDoneProblem, nil)
	l.notDone.succeeded(now)
}

func (l *loop) notDoneFailed(now time.Time, err error) {
	l.r.p.Logger.Error("the not-done table could not be written", "reconciler", l.r.p.Name, "error", err)
	l.health.concern(notDoneProblem, err)
	l.notDone.failed(now)
}
