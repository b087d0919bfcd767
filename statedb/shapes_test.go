package statedb_test

import (
	"fmt"
	"iter"
	"runtime"
	"testing"

	"github.com/statehive/statehive/statedb"
)

// Rows of every size and alignment, in tables with any number of indexes.

// testShape writes and reads rows of a type. number tells them apart.
func testShape[Obj any](t *testing.T, indexes int, number func(Obj) int, rows ...Obj) {
	t.Run(fmt.Sprintf("%T with %d indexes", *new(Obj), indexes), func(t *testing.T) {
		db := newDB()
		primary := statedb.NewIndex("number", number)
		schema := statedb.Schema[Obj]{Name: "shapes", Primary: primary}
		var single []statedb.Index[Obj, int]
		multi := statedb.NewMultiIndex("both", func(o Obj) iter.Seq[int] {
			return func(yield func(int) bool) { _ = yield(number(o)) && yield(-number(o)) }
		})
		for i := range indexes {
			ix := statedb.NewIndex(fmt.Sprint("index-", i), func(o Obj) int { return number(o) % (i + 1) })
			single = append(single, ix)
			schema.Secondary = append(schema.Secondary, ix)
		}
		schema.Secondary = append(schema.Secondary, multi)
		table := newTable(t, db, schema)
		cursor := table.Changes(0)
		defer cursor.Close()
		for range 3 { // the second time most are the same, or not
			check(t, "insert", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				for _, row := range rows {
					if _, _, err := table.Insert(txn, row); err != nil {
						return err
					}
				}
				return nil
			}, table))
			runtime.GC()
			txn := db.ReadTxn()
			for _, row := range rows {
				n := number(row)
				if got, _, ok := table.Get(txn, primary.Query(n)); !ok || fmt.Sprint(got) != fmt.Sprint(row) {
					t.Errorf("row %d reads as %v, expected %v", n, got, row)
				}
				for i, ix := range single {
					got := -1
					for other := range table.List(txn, ix.Query(n%(i+1))) {
						if number(other) == n {
							got = n
						}
					}
					if got != n {
						t.Errorf("index %d does not have row %d", i, n)
					}
				}
				if got, _, ok := table.Get(txn, multi.Query(-n)); !ok || number(got) != n {
					t.Errorf("the other index leads from %d to %d", -n, number(got))
				}
			}
			for change := range cursor.Next(txn) {
				if change.Kind != statedb.Upsert {
					t.Errorf("change %+v", change)
				}
			}
			if got := table.Untyped().Memory(txn); got.Rows <= 0 {
				t.Errorf("the rows need %d bytes", got.Rows)
			}
		}
		check(t, "delete", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			for _, row := range rows {
				if _, deleted, err := table.Delete(txn, row); err != nil || !deleted {
					return fmt.Errorf("deleted: %t: %w", deleted, err)
				}
			}
			return nil
		}, table))
		if n := statedb.Count(table.All(db.ReadTxn())); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

func TestRowsOfAnyShape(t *testing.T) {
	type (
		empty struct{}
		large [2100]byte // too large for leaves in its entries
		mixed struct {
			Small bool
			Half  [3]byte
			Deep  struct{ Text *string }
			Last  struct{}
		}
	)
	for _, indexes := range []int{0, 1, 6, 7, 8, 9, 70} {
		testShape(t, indexes, func(empty) int { return 3 }, empty{})
		testShape(t, indexes, func(b bool) int { return map[bool]int{true: 1}[b] }, true, false)
		testShape(t, indexes, func(b [3]byte) int { return int(b[2]) }, [3]byte{1, 2, 3}, [3]byte{3, 2, 1})
		testShape(t, indexes, func(c complex128) int { return int(real(c)) }, 1+2i, 3)
		testShape(t, indexes, func(l large) int { return int(l[len(l)-1]) }, large{1, 2099: 7}, large{2099: 8})
		testShape(t, indexes, func(m mixed) int { return int(m.Half[1]) }, mixed{Half: [3]byte{1: 1}, Deep: struct{ Text *string }{new(string)}}, mixed{})
		testShape(t, indexes, func(m map[string]int) int { return m["n"] }, map[string]int{"n": 4}, nil)
		testShape(t, indexes, func(s []int) int { return len(s) }, []int{1}, nil)
		testShape(t, indexes, func(a any) int { n, _ := a.(int); return n }, any(5), any("text"))
		testShape(t, indexes, func(f func() int) int { return f() }, func() int { return 2 })
	}
}
