package reconcilercell_test

import (
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/statedb"
)

func TestHiveIsReadyOnceTheFirstFullPassHasTriedAllRows(t *testing.T) {
	var readiness *hive.Readiness
	var source *statedb.Source[thing]
	var r running
	h := newHive(t, inspect.Cell(), reconcilercell.Cell(),
		things(cell.Invoke(func(db *statedb.DB, table statedb.RWTable[thing]) error {
			r.db, r.table = db, table
			return db.Update(t.Context(), func(txn *statedb.WriteTxn) (err error) {
				source, err = table.RegisterSource(txn, "late")
				return err
			}, table)
		})),
		cell.Invoke(func(is *hive.Readiness) { readiness = is }),
	)
	r.begin(t, h)
	r.insert(t, "good", "bad")
	ready, waits := readiness.Ready()
	if got := strings.Join(waits, "\n"); ready || got != "reconciler: things: the first listing of late" {
		t.Errorf("before the first listing: ready is %v, waits for %q", ready, got)
	}
	if err := r.db.Update(t.Context(), source.Initialized, r.table); err != nil {
		t.Fatal(err)
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	deadline := time.After(patience)
	for !ready { // although a row is in error
		select {
		case <-look.C:
			ready, waits = readiness.Ready()
		case <-deadline:
			t.Fatalf("not ready, waits for %q", waits)
		}
	}
}
