package reconciler_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func TestNotDoneNamesTheStateOfEachRow(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			switch c.id {
			case "again":
				return reconciler.Result{Again: time.Hour}, nil
			case "terminal":
				return reconciler.Result{}, reconciler.Terminal(errBoom)
			case "error":
				return reconciler.Result{}, reconciler.RetryAfter(time.Hour, errBoom)
			}
			if c.op == "delete" {
				return reconciler.Result{}, reconciler.RetryAfter(time.Hour, errBoom)
			}
			return reconciler.Result{}, nil
		})
		w.put(row{ID: "deleting"})
		w.pass(2 * time.Second)
		now := time.Now()
		until := now.Add(2 * time.Hour)
		w.check(w.r.Pause(t.Context(), reconciler.Selector[row]{Keys: []string{"paused"}}, until))
		w.erase("deleting")
		w.put(row{ID: "again"}, row{ID: "terminal"}, row{ID: "error"}, row{ID: "paused"}, row{ID: "fine"})
		due := now.Add(time.Hour)
		hour, hours := due.Format(time.RFC3339), until.Format(time.RFC3339)
		want := []reconciler.NotDone{
			{Key: "again", Operation: "update", State: "again", NextDue: due, WaitsFor: "until " + hour + ", when it is applied again as its target requested"},
			{Key: "deleting", Operation: "delete", State: "deleting", Attempts: 1, LastError: "boom", NextDue: due, WaitsFor: "backoff: until " + hour},
			{Key: "error", Operation: "update", State: "error", Attempts: 1, LastError: "boom", NextDue: due, WaitsFor: "backoff: until " + hour},
			{Key: "paused", Operation: "update", State: "paused", WaitsFor: "paused: until " + hours},
			{Key: "terminal", Operation: "update", State: "error", Attempts: 1, LastError: "boom", WaitsFor: "terminal error: a new spec or a full pass"},
		}
		for i := range want {
			want[i].Reconciler, want[i].Table, want[i].Reasons = "rows", "rows", "change"
		}
		if diff := cmp.Diff(want, w.notDoneRows(), cmpopts.EquateApproxTime(time.Millisecond)); diff != "" {
			t.Errorf("not-done (-want +got):\n%s", diff)
		}
	})
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// A reader that sees the error in a row's status finds the row in the not-done table as well:
// both are written in one transaction.
func TestNotDoneIsWrittenWithTheStatus(t *testing.T) {
	prepared(t, func(w *world) {
		schema := reconciler.NotDoneSchema()
		schema.Name = "together"
		schema.Validators = append(schema.Validators, func(txn statedb.ReadTxn, _ statedb.Proposal[reconciler.NotDone]) error {
			inside, _, _ := w.table.Get(txn, byID.Query("a"))
			outside, _, _ := w.table.Get(w.db.ReadTxn(), byID.Query("a"))
			if inside.Status.Kind() != reconciler.Error || outside.Status.Kind() != reconciler.Pending {
				t.Errorf("the status is %v in the transaction and %v outside of it", inside.Status, outside.Status)
			}
			return nil
		})
		w.notDone = must(statedb.NewTable(w.db, schema))
	}, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.equal("not-done", 1, len(w.notDoneRows()))
	})
}

func TestNotDoneKeysAreLimitedOneByOne(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("a", "b"))
		w.put(row{ID: "a", Want: 1})
		w.pass(150 * time.Millisecond) // a fails again
		w.put(row{ID: "b", Want: 1})
		var attempts []int
		for _, r := range w.notDoneRows() {
			attempts = append(attempts, r.Attempts)
		}
		w.equal("attempts of a, which is too young, and of b", []int{1, 1}, attempts)
		w.pass(time.Second)
		if rows := w.notDoneRows(); rows[0].Attempts < 3 {
			w.t.Errorf("a stands as it was: %+v", rows[0])
		}
	})
}

func TestNotDoneTableThatRefusesDoesNotStopStatuses(t *testing.T) {
	refuses := reconciler.NotDoneSchema()
	refuses.Name = "refuses"
	refuses.Validators = append(refuses.Validators, func(statedb.ReadTxn, statedb.Proposal[reconciler.NotDone]) error { return errBoom })
	prepared(t, func(w *world) { w.notDone = must(statedb.NewTable(w.db, refuses)) }, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.wantStatus("a", "error: boom")
	})
}
