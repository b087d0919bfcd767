package statedb_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/statehive/statehive/statedb"
)

type parcel struct {
	ID    string
	Items []string
	Tags  map[string]int
	Next  *item
	Any   any
}

// inUse is what is in use now.
func inUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func wantNear(t *testing.T, what string, estimate, measured int) {
	t.Helper()
	t.Logf("%s: estimate %d, measured %d: %+d %%", what, estimate, measured, 100*(estimate-measured)/measured)
	if estimate < measured*8/10 || estimate > measured*12/10 {
		t.Errorf("%s: estimate %d, measured %d", what, estimate, measured)
	}
}

// checkMemory compares the estimates for rows of a shape with the heap.
func checkMemory[Obj any](t *testing.T, schema statedb.Schema[Obj], row func(i int) Obj) {
	const count = 5_000
	db := newDB()
	table := newTable(t, db, schema)
	write := func(fn func(txn *statedb.WriteTxn, i int) error) {
		err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			for i := range count {
				if err := fn(txn, i); err != nil {
					return err
				}
			}
			return nil
		}, table)
		if err != nil {
			t.Fatal(err)
		}
	}
	estimate := func() statedb.TableMemory {
		txn := db.ReadTxn()
		table, err := db.Table(txn, schema.Name)
		if err != nil {
			t.Fatal(err)
		}
		return table.Memory(txn)
	}
	empty := inUse()
	write(func(txn *statedb.WriteTxn, i int) error { _, _, err := table.Insert(txn, row(i)); return err })
	m := estimate()
	wantNear(t, "rows and indexes", m.Rows+m.Indexes, inUse()-empty)

	cursor := table.Changes(table.Revision(db.ReadTxn()))
	defer cursor.Close()
	write(func(txn *statedb.WriteTxn, i int) error { _, _, err := table.Delete(txn, row(i)); return err })
	m = estimate()
	wantNear(t, "deletes kept", m.Rows+m.Indexes+m.Changes, inUse()-empty)
	runtime.KeepAlive(table)
}

func TestMemoryIsNearTheHeap(t *testing.T) {
	text := func(i, n int) string { return strings.Repeat(fmt.Sprint(i, " "), n) }
	t.Run("small values", func(t *testing.T) {
		checkMemory(t, statedb.Schema[item]{Name: "items", Primary: byID}, func(i int) item { return item{ID: fmt.Sprintf("item-%07d", i*7)} })
	})
	t.Run("secondary indexes", func(t *testing.T) {
		checkMemory(t, itemSchema("items"), func(i int) item {
			return item{ID: fmt.Sprintf("namespace-%d/pod-%06x", i%17, i*7919), Group: fmt.Sprint("group-", i/10), Number: i, Tags: "a b"}
		})
	})
	t.Run("pointers", func(t *testing.T) {
		byPointer := statedb.NewIndex("id", func(p *parcel) string { return p.ID })
		checkMemory(t, statedb.Schema[*parcel]{Name: "parcels", Primary: byPointer}, func(i int) *parcel {
			return &parcel{
				ID: fmt.Sprint(i), Items: []string{text(i, 3), text(i, 20)}, Tags: map[string]int{text(i, 2): 1},
				Next: &item{Group: text(i, 4)}, Any: text(i, 5),
			}
		})
	})
}
