package statedb_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb"
)

func TestRule1EachRowKnowsItsSpec(t *testing.T) {
	f := newFixture(t)
	f.insert(item{ID: "a", Number: 1})
	_, spec := f.get("a")
	for status := range 3 {
		if !f.amend("a", spec, status+1) {
			t.Fatal("a status write moved the spec")
		}
	}
	if _, revision := f.get("a"); revision != spec+3 {
		t.Errorf("revision %d after three status writes on %d", revision, spec)
	}
	f.insert(item{ID: "a", Number: 2})
	if f.amend("a", spec+3, 1) {
		t.Error("a status write was accepted although the spec is newer")
	}
}

func TestRule2ANewRowHasNoStatus(t *testing.T) {
	f := newFixture(t, item{ID: "a", Status: 7})
	if row, _ := f.get("a"); row.Status != 0 {
		t.Errorf("a new row has status %d", row.Status)
	}
}

func TestRule3WritingTheSameSpecDisturbsNothing(t *testing.T) {
	f := newFixture(t, item{ID: "a", Number: 1})
	_, spec := f.get("a")
	f.amend("a", spec, 5)
	_, before := f.get("a")
	_, watch := f.items.AllWatch(f.db.ReadTxn())
	for status := range 1_000 {
		f.insert(item{ID: "a", Number: 1, Status: status})
	}
	if row, revision := f.get("a"); row.Status != 5 || revision != before || closed(watch) {
		t.Errorf("1,000 identical writes gave %+v at %d, expected status 5 at %d; watch closed: %t", row, revision, before, closed(watch))
	}
}

func TestRule3WritingAnotherSpecResetsTheStatus(t *testing.T) {
	writes := map[string]func(f *fixture, txn *statedb.WriteTxn, spec statedb.Revision) error{
		"insert": func(f *fixture, txn *statedb.WriteTxn, _ statedb.Revision) error {
			_, _, err := f.items.Insert(txn, item{ID: "a", Number: 2, Status: 9})
			return err
		},
		"modify": func(f *fixture, txn *statedb.WriteTxn, _ statedb.Revision) error {
			_, err := f.items.Modify(txn, byID.Query("a"), func(i item) item { i.Number = 2; return i })
			return err
		},
		"swap": func(f *fixture, txn *statedb.WriteTxn, spec statedb.Revision) error {
			_, err := f.items.CompareAndSwap(txn, spec, item{ID: "a", Number: 2, Status: 9})
			return err
		},
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, item{ID: "a", Number: 1})
			_, spec := f.get("a")
			f.amend("a", spec, 5)
			f.update(func(txn *statedb.WriteTxn) error { return write(f, txn, spec) })
			if row, _ := f.get("a"); row.Status != 0 || row.Number != 2 {
				t.Errorf("row is %+v, expected number 2 and no status", row)
			}
		})
	}
}

func TestRule3WithoutEqualityEveryWriteIsAChange(t *testing.T) {
	type unequal struct {
		ID   string
		List []string
	}
	db := newDB()
	table := newTable(t, db, statedb.Schema[unequal]{Name: "rows", Primary: statedb.NewIndex("id", func(u unequal) string { return u.ID })})
	for range 3 {
		err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, unequal{ID: "a"})
			return err
		}, table)
		check(t, "insert", err)
	}
	if revision := table.Revision(db.ReadTxn()); revision != 3 {
		t.Errorf("revision is %d after three writes", revision)
	}
}

// pointer is a row that is stored as a pointer, with an equality of its own
// that leaves the status out.
type pointer struct {
	ID     string
	Number int
	Status int
}

func (p *pointer) Equal(other *pointer) bool { return p.ID == other.ID && p.Number == other.Number }

var pointerByID = statedb.NewIndex("id", func(p *pointer) string { return p.ID })

func pointerSchema() statedb.Schema[*pointer] {
	return statedb.Schema[*pointer]{
		Name: "pointers", Primary: pointerByID,
		Amend: statedb.Amend[*pointer]{
			Carry: func(from, to *pointer) *pointer { return &pointer{to.ID, to.Number, from.Status} },
			Reset: func(p *pointer) *pointer { return &pointer{p.ID, p.Number, 0} },
		},
	}
}

func TestPointerRows(t *testing.T) {
	db := newDB()
	table := newTable(t, db, pointerSchema())
	try := func(fn func(txn *statedb.WriteTxn) error) error { return db.Update(t.Context(), fn, table) }
	stored := func() *pointer {
		row, _, ok := table.Get(db.ReadTxn(), pointerByID.Query("a"))
		if !ok {
			t.Fatal("the row is not there")
		}
		return row
	}
	insert := func(row *pointer) error {
		return try(func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, row)
			return err
		})
	}
	check(t, "insert", insert(&pointer{ID: "a", Number: 1}))

	t.Run("the stored pointer is refused before anything changes", func(t *testing.T) {
		same := func(p *pointer) *pointer { return p }
		for name, write := range map[string]func(txn *statedb.WriteTxn) error{
			"insert": func(txn *statedb.WriteTxn) error { _, _, err := table.Insert(txn, stored()); return err },
			"swap":   func(txn *statedb.WriteTxn) error { _, err := table.CompareAndSwap(txn, 100, stored()); return err },
			"modify": func(txn *statedb.WriteTxn) error {
				_, err := table.Modify(txn, pointerByID.Query("a"), same)
				return err
			},
			"amend": func(txn *statedb.WriteTxn) error { _, err := table.Amend(txn, stored(), 100, same); return err },
		} {
			err := try(func(txn *statedb.WriteTxn) error {
				if err := write(txn); !errors.Is(err, statedb.ErrSameObject) {
					t.Errorf("%s: %v", name, err)
				}
				return nil
			})
			check(t, "commit", err)
		}
		if revision := table.Revision(db.ReadTxn()); revision != 1 {
			t.Errorf("revision is %d, expected 1", revision)
		}
	})
	t.Run("nil is refused", func(t *testing.T) {
		wantError(t, insert(nil), statedb.ErrNilRow)
		wantError(t, try(func(txn *statedb.WriteTxn) error {
			_, err := table.Modify(txn, pointerByID.Query("a"), func(*pointer) *pointer { return nil })
			return err
		}), statedb.ErrNilRow)
	})
	t.Run("an equality that leaves the status out loses no status", func(t *testing.T) {
		check(t, "amend", try(func(txn *statedb.WriteTxn) error {
			amended, err := table.Amend(txn, &pointer{ID: "a"}, 1, func(p *pointer) *pointer { return &pointer{p.ID, 99, 5} })
			if !amended {
				t.Error("the status write was not accepted")
			}
			return err
		}))
		check(t, "insert", insert(&pointer{ID: "a", Number: 1}))
		if row := stored(); row.Status != 5 || row.Number != 1 {
			t.Errorf("row is %+v, expected number 1 with status 5", row)
		}
		check(t, "insert", insert(&pointer{ID: "a", Number: 2}))
		if row := stored(); row.Status != 0 || row.Number != 2 {
			t.Errorf("row is %+v, expected number 2 without status", row)
		}
	})
}

func TestRule4AStatusWriteAppliesToTheCurrentRowAndOnlyToItsStatus(t *testing.T) {
	f := newFixture(t, item{ID: "a", Number: 1})
	_, spec := f.get("a")
	f.amend("a", spec, 1)
	f.update(func(txn *statedb.WriteTxn) error {
		amended, err := f.items.Amend(txn, item{ID: "a", Number: 50}, spec, func(current item) item {
			if current.Status != 1 || current.Number != 1 {
				t.Errorf("the function got %+v, which is not the current row", current)
			}
			return item{ID: "b", Group: "other", Number: 77, Status: current.Status + 1}
		})
		if !amended {
			t.Error("refused")
		}
		return err
	})
	if row, _ := f.get("a"); row != (item{ID: "a", Number: 1, Status: 2}) {
		t.Errorf("row is %+v", row)
	}
}

func TestTheSpecOfARowIsOlderThanItsStatus(t *testing.T) {
	f := newFixture(t, item{ID: "a", Number: 1})
	_, written := f.get("a")
	f.amend("a", written, 1)
	spec, there := f.items.Spec(f.db.ReadTxn(), byID.Query("a"))
	if _, newest := f.get("a"); spec != written || newest <= spec || !there {
		t.Errorf("spec %d of a row written at %d and amended at %d", spec, written, newest)
	}
	if spec, there := f.items.Spec(f.db.ReadTxn(), byID.Query("b")); there || spec != 0 {
		t.Errorf("a row that is not there has spec %d", spec)
	}
}

func TestRule4NeedsATableWithAStatus(t *testing.T) {
	db := newDB()
	table := newTable(t, db, statedb.Schema[item]{Name: "items", Primary: byID})
	err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, err := table.Amend(txn, item{ID: "a"}, 1, func(i item) item { return i })
		return err
	}, table)
	wantError(t, err, statedb.ErrNotAmendable)
}

func TestRule5ARecreatedRowIsNotMistakenForTheOldOne(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	_, old := f.get("a")
	f.remove("a")
	if f.amend("a", old, 1) {
		t.Error("the status of a deleted row was written")
	}
	f.insert(item{ID: "a"})
	if f.amend("a", old, 1) {
		t.Error("the status of the old row was written to the new one")
	}
	if row, revision := f.get("a"); row.Status != 0 || revision <= old {
		t.Errorf("row is %+v at %d", row, revision)
	}
}

func TestRule6TheNewestRecordShowsAPendingStatus(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	_, spec := f.get("a")
	cursor := f.follow(0)
	f.wantChanges(cursor, "+a")
	f.insert(item{ID: "a", Number: 1})
	if f.amend("a", spec, 1) { // another reconciler, that worked on the old spec
		t.Fatal("accepted")
	}
	for change := range cursor.Next(f.db.ReadTxn()) {
		if change.Object.Status != 0 || change.Object.Number != 1 {
			t.Errorf("the record is %+v", change.Object)
		}
	}
}

func TestRule8StatusWritesNeverBreakASwap(t *testing.T) {
	for name, compared := range map[string]func(f *fixture, txn *statedb.WriteTxn, revision statedb.Revision) error{
		"swap": func(f *fixture, txn *statedb.WriteTxn, revision statedb.Revision) error {
			_, err := f.items.CompareAndSwap(txn, revision, item{ID: "a", Number: 2})
			return err
		},
		"delete": func(f *fixture, txn *statedb.WriteTxn, revision statedb.Revision) error {
			_, err := f.items.CompareAndDelete(txn, revision, item{ID: "a"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, item{ID: "a", Number: 1})
			_, spec := f.get("a")
			f.amend("a", spec, 1)
			f.update(func(txn *statedb.WriteTxn) error { return compared(f, txn, spec) })

			f.insert(item{ID: "a", Number: 3})
			_, watch := f.items.AllWatch(f.db.ReadTxn())
			before := f.items.Revision(f.db.ReadTxn())
			f.update(func(txn *statedb.WriteTxn) error {
				wantError(t, compared(f, txn, spec), statedb.ErrConflict)
				return nil
			})
			if f.items.Revision(f.db.ReadTxn()) != before || closed(watch) {
				t.Error("a refused write left a trace")
			}
		})
	}
}

// TestSpecAndStatusWritersLoseNothing runs writers as sources and reconcilers
// are: in the end each row has its last spec, and the status of exactly that.
func TestSpecAndStatusWritersLoseNothing(t *testing.T) {
	const reconcilers, rows = 3, 8
	type statuses [reconcilers]int // what spec each of them has done; 0: pending
	type row struct {
		ID     int
		Spec   int
		Status statuses
	}
	byRow := statedb.NewIndex("id", func(r row) int { return r.ID })
	db := newDB()
	table := newTable(t, db, statedb.Schema[row]{
		Name: "rows", Primary: byRow,
		Amend: statedb.Amend[row]{
			Carry: func(from, to row) row { to.Status = from.Status; return to },
			Reset: func(r row) row { r.Status = statuses{}; return r },
		},
	})
	last := map[int]int{}
	var mu sync.Mutex // guards last, in the order of commits
	var sources, workers sync.WaitGroup
	stop := make(chan struct{})

	for source := range 2 {
		random := rand.New(rand.NewPCG(uint64(source), 1))
		sources.Go(func() {
			for n := range 1_500 {
				id, spec := random.IntN(rows), source+2*n+1
				err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
					mu.Lock()
					defer mu.Unlock()
					if n%10 == 9 {
						delete(last, id)
						_, _, err := table.Delete(txn, row{ID: id})
						return err
					}
					last[id] = spec
					_, _, err := table.Insert(txn, row{ID: id, Spec: spec})
					return err
				}, table)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for me := range reconcilers {
		workers.Go(func() {
			cursor := table.Changes(0)
			defer cursor.Close()
			for {
				final := closed(stop) // looked at before the snapshot
				for change := range cursor.Next(db.ReadTxn()) {
					if change.Kind != statedb.Upsert || change.Object.Status[me] != 0 {
						continue // a record is work only if my status is pending
					}
					err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
						_, err := table.Amend(txn, change.Object, change.Revision, func(r row) row {
							r.Status[me] = change.Object.Spec
							return r
						})
						return err
					}, table)
					if err != nil {
						t.Error(err)
					}
				}
				if final {
					return
				}
				select {
				case <-cursor.Watch():
				case <-stop:
				}
			}
		})
	}
	sources.Wait()
	close(stop)
	workers.Wait()

	got := map[int]int{}
	for r := range table.All(db.ReadTxn()) {
		got[r.ID] = r.Spec
		if want := (statuses{r.Spec, r.Spec, r.Spec}); r.Status != want {
			t.Errorf("row %d has spec %d and statuses %v", r.ID, r.Spec, r.Status)
		}
	}
	if !maps.Equal(got, last) {
		t.Errorf("specs are %v, expected %v", got, last)
	}
}

// TestReconcilersSettleUnderAnyInterleaving steps them one by one.
func TestReconcilersSettleUnderAnyInterleaving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		db := newDB()
		r := &run{t: t, db: db}
		table := r.add("", false)
		statedb.SetMinWindow(table, rapid.SampledFrom([]int{0, 1 << 16}).Draw(t, "window"))
		cursor := table.Changes(0)
		defer cursor.Close()
		var working []statedb.Change[item] // operations that have begun
		finish := func(i int) {
			change := working[i]
			working = slices.Delete(working, i, i+1)
			check(t, "status", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				_, err := table.Amend(txn, change.Object, change.Revision, func(row item) item {
					row.Status = 1
					if change.Object.Number != row.Number || change.Object.Group != row.Group {
						t.Fatalf("the status of %+v was written to %+v", change.Object, row)
					}
					return row
				})
				return err
			}, table))
		}
		begin := func() {
			for change := range cursor.Next(db.ReadTxn()) {
				if change.Kind == statedb.Upsert && change.Object.Status == 0 {
					working = append(working, change)
				}
				if rapid.IntRange(0, 5).Draw(t, "stop if 0") == 0 {
					break
				}
			}
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"write", "burst", "begin", "finish"}).Draw(t, "step") {
			case "write":
				spec := items().Draw(t, "spec")
				check(t, "spec", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
					_, _, err := table.Insert(txn, spec)
					return err
				}, table))
			case "burst":
				r.burst()
			case "begin":
				begin()
			case "finish":
				if len(working) > 0 {
					finish(rapid.IntRange(0, len(working)-1).Draw(t, "which"))
				}
			}
		}
		for range 2 { // the status writes come back once
			for change := range cursor.Next(db.ReadTxn()) {
				if change.Kind == statedb.Upsert && change.Object.Status == 0 {
					working = append(working, change)
				}
			}
			for len(working) > 0 {
				finish(0)
			}
		}
		for row := range table.All(db.ReadTxn()) {
			if row.Status != 1 {
				t.Fatalf("row %+v was never done", row)
			}
		}
	})
}

func TestAFunctionThatWritesItsRowItselfIsRefused(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	f.update(func(txn *statedb.WriteTxn) error {
		_, err := f.items.Modify(txn, byID.Query("a"), func(i item) item {
			_, _, err := f.items.Insert(txn, item{ID: "a", Number: 1})
			check(t, "insert inside", err)
			return item{ID: "a", Number: 2}
		})
		wantError(t, err, statedb.ErrConflict)
		return nil
	})
	if row, _ := f.get("a"); row.Number != 1 {
		t.Errorf("row is %+v", row)
	}
	if n, _ := f.items.LenOf(f.db.ReadTxn(), "number"); n != 1 {
		t.Errorf("%d entries in an index of 1 row", n)
	}
	err := f.try(func(txn *statedb.WriteTxn) error {
		_, err := f.items.Modify(txn, byID.Query("a"), func(i item) item {
			txn.Abort()
			i.Number = 3
			return i
		})
		return err
	})
	wantError(t, err, statedb.ErrTxnClosed)
}

func TestModifyThatChangesTheKeyIsRefused(t *testing.T) {
	f := newFixture(t, item{ID: "a", Group: "g"})
	before := f.items.Revision(f.db.ReadTxn())
	f.update(func(txn *statedb.WriteTxn) error {
		_, err := f.items.Modify(txn, byGroup.Query("g"), func(i item) item { i.ID = "b"; return i })
		wantError(t, err, statedb.ErrKeyChanged)
		var rowError *statedb.RowError
		if !errors.As(err, &rowError) || rowError.Key != "a" || rowError.Table != "items" {
			t.Errorf("error %v does not carry the row", err)
		}
		return nil
	})
	if got := fmt.Sprint(ids(f.items.All(f.db.ReadTxn()))); got != "[a]" || f.items.Revision(f.db.ReadTxn()) != before {
		t.Errorf("rows are %s", got)
	}
}
