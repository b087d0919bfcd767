package dbcell_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

func construct(t *testing.T, cells ...cell.Cell) error {
	t.Helper()
	h := newHive(t, "", cells...)
	err := h.Start(t.Context())
	if err == nil {
		if stop := h.Stop(t.Context()); stop != nil {
			t.Error(stop)
		}
	}
	return err
}

func TestOnlyTheOwningModuleCanWriteAProtectedTable(t *testing.T) {
	owner := func(inner ...cell.Cell) cell.Cell {
		return cell.Module("owner", "owns the table", append([]cell.Cell{dbcell.Protected(noteSchema())}, inner...)...)
	}
	write := cell.Invoke(func(notes *statedb.RWTable[note], db *statedb.DB) error {
		return db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := notes.Insert(txn, note{Name: "a"})
			return err
		}, notes)
	})
	read := cell.Invoke(func(notes *statedb.Table[note], db *statedb.DB) error {
		if n := notes.Len(db.ReadTxn()); n != 1 {
			t.Errorf("the reader sees %d rows, want 1", n)
		}
		return nil
	})
	other := func(c cell.Cell) cell.Cell { return cell.Module("other", "another module", c) }

	if err := construct(t, owner(write), other(read), read); err != nil {
		t.Errorf("owner writes, others read: %v", err)
	}
	if err := construct(t, owner(cell.Module("inner", "nested", write)), other(read)); err != nil {
		t.Errorf("a module nested in the owner writes: %v", err)
	}
	for where, c := range map[string]cell.Cell{"another module": other(write), "outside of modules": write} {
		err := construct(t, owner(), c)
		var graph *cell.GraphError
		if !errors.As(err, &graph) || !strings.Contains(err.Error(), `private to module "owner"`) {
			t.Errorf("a writer from %s was not refused: %v", where, err)
		}
	}
}

func TestEveryoneCanWriteAnOpenTable(t *testing.T) {
	err := construct(t,
		cell.Module("owner", "declares the table", dbcell.Open(noteSchema())),
		cell.Module("other", "another module", cell.Invoke(func(*statedb.RWTable[note], *statedb.Table[note]) {})),
	)
	if err != nil {
		t.Error(err)
	}
}

func TestTableExistsWithoutAnyoneAskingForIt(t *testing.T) {
	err := construct(t,
		cell.Module("owner", "owns the table", dbcell.Protected(noteSchema())),
		cell.Invoke(func(db *statedb.DB) error {
			_, err := db.Table(db.ReadTxn(), "notes")
			return err
		}),
	)
	if err != nil {
		t.Error(err)
	}
}

func TestWrongSchemaIsAnErrorThatNamesTableAndModule(t *testing.T) {
	for name, declare := range map[string]func(statedb.Schema[note]) cell.Cell{
		"protected": dbcell.Protected[note],
		"open":      dbcell.Open[note],
	} {
		err := construct(t, cell.Module("owner", "owns the table", declare(statedb.Schema[note]{Name: "notes"})))
		if !errors.Is(err, statedb.ErrSchema) {
			t.Fatalf("%s: got %v, want ErrSchema", name, err)
		}
		for _, want := range []string{`module "owner"`, `table "notes"`, "Primary is not set"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not say %s", name, err, want)
			}
		}
	}
}
