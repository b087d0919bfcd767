package reconciler_test

import (
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// wipe makes all statuses as they are on rows that nobody has seen.
func (w *world) wipe() {
	w.update(func(txn *statedb.WriteTxn) error {
		var all []row
		for r := range w.table.All(txn) {
			all = append(all, r)
		}
		for _, r := range all {
			_, err := w.table.Amend(txn, r, w.table.Revision(txn), func(current row) row {
				return current.WithStatus(reconciler.Status{})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func TestWipedStatusesAreFoundAgainWithoutHarm(t *testing.T) {
	for name, wipe := range map[string]func(w *world){
		"while it runs": (*world).wipe,
		"while it does not run": func(w *world) {
			w.stop()
			w.wipe()
			w.start()
		},
		"while all are being applied": func(w *world) {
			w.target.will(taking(ms, "10005"))
			w.r.FullPass()
			w.pass(20 * ms)
			w.wipe()
		},
		"together with the table of what is not done": func(w *world) {
			w.stop()
			w.wipe()
			w.notDone = must(statedb.NewTable(w.db, func() statedb.Schema[reconciler.NotDone] {
				schema := reconciler.NotDoneSchema()
				schema.Name = "fresh"
				return schema
			}()))
			w.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			running(t, func(t *testing.T, w *world) {
				w.target.will(failing("10005"))
				w.put(numbered(100, 1)...)
				w.target.corrupt("10050", 7) // which nobody has noticed yet
				w.target.took()
				wipe(w)
				w.pass(time.Second)
				w.equal("done", 99, w.r.Summary(w.db.ReadTxn()).Done)
				w.wantStatus("10005", "error: boom")
				for _, c := range w.target.took() {
					if c.op == "delete" {
						t.Errorf("%v, of what is wanted", c)
					}
				}
				w.target.will(nil)
				w.pass(5 * time.Minute)
				w.wantConverged() // what was corrupt too
			})
		})
	}
}

func TestWipedStatusIsOneOperationForEachRow(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(numbered(500, 1)...)
		w.target.took()
		before := w.metrics()
		w.wipe()
		w.pass(time.Hour)
		w.equal("operations", 500, len(w.target.took()))
		w.equal("out of sync", before.outOfSync, w.metrics().outOfSync)
		w.wantConverged()
	})
}
