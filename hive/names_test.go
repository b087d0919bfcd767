package hive_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/statedb"
)

// The database is an alias of a type in an internal package, which no user knows.
func TestDatabaseIsNamedAsUsersWriteIt(t *testing.T) {
	h := newHive(t, hive.Options{}, cell.Module("m", "", cell.Invoke(func(*statedb.DB) {})))
	var needs []string
	for _, m := range h.Describe().Cells.Modules {
		for _, f := range m.Functions {
			needs = append(needs, f.Needs...)
		}
	}
	if !slices.Contains(needs, "*statedb.DB") {
		t.Errorf("got %q", needs)
	}
	_, err := hive.New(hive.Options{Name: "test"}, cell.Supply(statedb.New()))
	if err == nil || strings.Count(err.Error(), "*statedb.DB") != 2 || strings.Contains(err.Error(), "store.") {
		t.Errorf("got %v", err)
	}
	err = newHive(t, hive.Options{}, cell.Invoke(func([]statedb.TableMeta, **statedb.DB) {})).Validate()
	for _, want := range []string{"missing type []statedb.TableMeta", "missing type **statedb.DB"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
