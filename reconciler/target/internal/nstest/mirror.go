package nstest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Runner is a part of a target that runs for as long as the target is used.
type Runner interface {
	Run(ctx context.Context, health reconciler.Health) error
}

// Mirror runs a mirror, which must be healthy, until the end of the test. It returns the
// mirror's table in a database of its own.
func Mirror[Seen any, M Runner](t *testing.T, schema statedb.Schema[Seen], newMirror func(*statedb.DB, *statedb.RWTable[Seen]) (M, error)) (*statedb.DB, *statedb.RWTable[Seen]) {
	t.Helper()
	db := statedb.New()
	seen, err := statedb.NewTable(db, schema)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMirror(db, seen)
	if err != nil {
		t.Fatal(err)
	}
	Run(t, m)
	return db, seen
}

// Run runs a part of a target, which must be healthy, until the end of the test.
func Run(t *testing.T, r Runner) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, healthy{t}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

type healthy struct{ t *testing.T }

func (healthy) OK(string)                            {}
func (h healthy) Degraded(message string, err error) { h.t.Errorf("%s: %v", message, err) }
func (healthy) Stopped(string)                       {}

// WaitForRows waits until those rows of a table that which lets through are these.
func WaitForRows[Row any](t *testing.T, db *statedb.DB, table *statedb.Table[Row], which func(Row) bool, want ...Row) {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		txn := db.ReadTxn()
		var rows []Row
		all, changed := table.AllWatch(txn)
		for row := range all {
			if which(row) {
				rows = append(rows, row)
			}
		}
		initialized, delivered := table.Initialized(txn)
		is, wanted := texts(rows), texts(want)
		switch {
		case initialized && slices.Equal(is, wanted):
			return
		case initialized:
			delivered = nil // it is closed, and there is more to wait for
		}
		select {
		case <-changed:
		case <-delivered:
		case <-deadline:
			t.Fatalf("table %s (-want +got):\n%s", table.Name(), cmp.Diff(wanted, is))
		}
	}
}

func texts[Row any](rows []Row) []string {
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = fmt.Sprintf("%+v", row)
	}
	slices.Sort(texts)
	return texts
}
