package engine

import (
	"time"

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
