package reconcilercell_test

import (
	"context"
	"strings"
	"testing"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

// A table that nothing writes is empty and has no source: its reconciler would wipe the target.
func TestATableThatNothingFeedsFailsTheStart(t *testing.T) {
	schema := reconciler.Reconciled(statedb.Schema[thing]{Name: "things", Primary: byID, Secondary: []statedb.Indexer[thing]{byKind}})
	writable := schema
	writable.WritableByName = true
	reads := cell.Invoke(func(*statedb.Table[thing], *reconciler.Reconciler[thing]) {})
	for name, tt := range map[string]struct {
		table cell.Cell
		more  cell.Cell
		fed   bool
	}{
		"by nobody":           {dbcell.Protected(schema), cell.Group(), false},
		"only read":           {dbcell.Protected(schema), reads, false},
		"open, and untouched": {dbcell.Open(schema), reads, false},
		"in its module":       {dbcell.Protected(schema), fed[thing](), true},
		"by a module in it":   {dbcell.Protected(schema), cell.Module("feed", "", fed[thing]()), true},
		"by name":             {dbcell.Protected(writable), cell.Group(), true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHive(t, reconcilercell.Cell(), cell.Module("things", "", tt.table, tt.more, reconcilercell.Register[thing](),
				cell.ProvidePrivate(func() reconciler.Target[thing] { return noop{} })))
			err := h.Start(t.Context())
			if err == nil {
				defer func() { _ = h.Stop(context.WithoutCancel(t.Context())) }()
			}
			const want = `module "things": nothing feeds table "things"`
			if tt.fed && err != nil || !tt.fed && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("start: %v", err)
			}
		})
	}
}

// Programs that embed a hive write tables from outside of it.
func TestATableThatIsWrittenFromOutsideIsFed(t *testing.T) {
	write := func(*statedb.RWTable[thing]) {}
	for name, tt := range map[string]struct {
		more   cell.Cell
		before any // what Hive.Invoke gets before the start
		fed    bool
	}{
		"before the start":        {cell.Group(), write, true},
		"only read there":         {cell.Group(), func(*statedb.Table[thing]) {}, false},
		"later, as is declared":   {cell.InvokedLater(write), nil, true},
		"later, without a notice": {cell.Group(), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			schema := reconciler.Reconciled(statedb.Schema[thing]{Name: "things", Primary: byID, Secondary: []statedb.Indexer[thing]{byKind}})
			h := newHive(t, reconcilercell.Cell(), cell.Module("things", "", dbcell.Open(schema), reconcilercell.Register[thing](), tt.more,
				cell.ProvidePrivate(func() reconciler.Target[thing] { return noop{} })))
			if tt.before != nil {
				if err := h.Invoke(tt.before); err != nil {
					t.Fatal(err)
				}
			}
			err := h.Start(t.Context())
			if err == nil {
				defer func() { _ = h.Stop(context.WithoutCancel(t.Context())) }()
				err = h.Invoke(write)
			}
			if tt.fed != (err == nil) {
				t.Errorf("start: %v", err)
			}
		})
	}
}
