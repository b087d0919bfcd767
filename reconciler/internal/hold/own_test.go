package hold

import (
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
	"github.com/statehive/statehive/statedb"
)

// waitsInCycle is what a row waits for in a cycle of rows of its own table.
func waitsInCycle(names ...string) Reason {
	return Reason{
		Stage: workqueue.Dependency,
		Text:  "rows " + names[1] + ", which is pending, in a cycle of rows that wait for each other: " + strings.Join(names, " -> "),
	}
}

func TestUpdateWaitsForRowsOfItsOwnTable(t *testing.T) {
	b := newBed(t, "rows")
	c := NewDependencies(b.owner("rows"), []Dependency{b.onOf("rows")}, func(keys []string) { t.Errorf("released %q", keys) }).NewChecker()
	b.put("rows", row{ID: "a", Of: "b"}, row{ID: "b", Of: "c"}, row{ID: "c", Of: "gone"}, row{ID: "self", Of: "self"}, row{ID: "d", Of: "self"})
	b.want(c, b.task(pool.Update, "rows", "a"), Reason{Stage: workqueue.Dependency, Text: "rows b, which is pending"})
	b.want(c, b.task(pool.Update, "rows", "b"), Reason{Stage: workqueue.Dependency, Text: "rows c, which is pending"})
	b.want(c, b.task(pool.Update, "rows", "d"), Reason{Stage: workqueue.Dependency, Text: "rows self, which is pending"})
	b.want(c, b.task(pool.Update, "rows", "c"), Reason{})
	b.want(c, b.task(pool.Update, "rows", "self"), Reason{})
	b.put("rows", row{ID: "b", State: "done"}, row{ID: "c"})
	b.want(c, b.task(pool.Update, "rows", "a"), Reason{})
}

func TestRowsOfACycleSaySo(t *testing.T) {
	b := newBed(t, "rows")
	var released []string
	c := NewDependencies(b.owner("rows"), []Dependency{b.onOf("rows")}, func(keys []string) { released = append(released, keys...) }).NewChecker()
	b.put("rows", row{ID: "a", Of: "b"}, row{ID: "b", Of: "c"}, row{ID: "c"}, row{ID: "up", Of: "a"})
	plain := func(of string) Reason {
		return Reason{Stage: workqueue.Dependency, Text: "rows " + of + ", which is pending"}
	}
	a, up := b.task(pool.Update, "rows", "a"), b.task(pool.Update, "rows", "up")
	b.want(c, a, plain("b"))
	b.want(c, b.task(pool.Update, "rows", "b"), plain("c"))
	b.want(c, up, plain("a"))

	b.put("rows", row{ID: "c", Of: "a"}) // closes the cycle
	b.want(c, b.task(pool.Update, "rows", "c"), waitsInCycle("c", "a", "b", "c"))
	if want := []string{a.Item.Key, b.task(pool.Update, "rows", "b").Item.Key}; !slices.Equal(released, want) {
		t.Errorf("released %q, want those of the cycle that do not know of it, %q", released, want)
	}
	released = nil
	b.want(c, a, waitsInCycle("a", "b", "c", "a"))
	b.want(c, b.task(pool.Update, "rows", "b"), waitsInCycle("b", "c", "a", "b"))
	b.want(c, b.task(pool.Update, "rows", "c"), waitsInCycle("c", "a", "b", "c"))
	b.want(c, up, plain("a")) // is in none
	b.put("rows", row{ID: "b"})
	b.want(c, b.task(pool.Update, "rows", "c"), plain("a"))
	b.want(c, b.task(pool.Update, "rows", "b"), Reason{})
	b.want(c, b.task(pool.Update, "rows", "c"), plain("a"))
}

func TestLongCycleIsNotNamedInFull(t *testing.T) {
	b := newBed(t, "rows")
	const n = 26
	for i := range n {
		b.put("rows", row{ID: string(rune('a' + i)), Of: string(rune('a' + (i+1)%n))})
	}
	c := NewDependencies(b.owner("rows"), []Dependency{b.onOf("rows")}, func([]string) {}).NewChecker()
	for i := range n {
		b.holds(c, b.task(pool.Update, "rows", string(rune('a'+i))))
	}
	b.want(c, b.task(pool.Update, "rows", "y"), waitsInCycle("y", "z", "a", "b", "c", "d", "e", "f", "g", "h", "...", "y"))
}

// TestVerdictOutlivesChangesOfRowsInNoIndex counts how often On is asked, by checkers that share
// the rows they have seen.
func TestVerdictOutlivesChangesOfRowsInNoIndex(t *testing.T) {
	b := newBed(t)
	byWaited := statedb.NewMultiIndex("waited for", func(r row) iter.Seq[string] {
		return func(yield func(string) bool) {
			if r.Of == "" {
				yield(r.ID)
			}
		}
	})
	b.add(statedb.Schema[row]{Name: "rows", Primary: byID, Secondary: []statedb.Indexer[row]{byWaited}})
	asked := 0
	d := NewDependencies(b.owner("rows"), []Dependency{{
		Table: b.tables["rows"].Untyped(), Status: statusOf,
		On: func(e *store.Entry, yield func(store.Query) bool) {
			asked++
			yield(byWaited.Query(rowOf(e).Of).Untyped())
		},
		By: func(e *store.Entry) any { return rowOf(e).Of },
	}}, func([]string) {})
	loop, worker := d.NewChecker(), d.NewChecker()
	b.put("rows", row{ID: "a", Of: "x"}, row{ID: "b", Of: "x"}, row{ID: "x", State: "done"})
	before := b.db.ReadTxn()
	wantBlocked := func(want bool, wantAsked int, ids ...string) {
		t.Helper()
		asked = 0
		for _, id := range ids {
			if blocked := loop.Blocked(b.db.ReadTxn(), b.entry("rows", id)); blocked != want {
				t.Errorf("%s is blocked: %t", id, blocked)
			}
		}
		if asked != wantAsked {
			t.Errorf("asked %d times, want %d", asked, wantAsked)
		}
	}
	wantBlocked(false, 1, "a", "b")
	b.put("rows", row{ID: "a", Of: "x", State: "done"}, row{ID: "c", Of: "x"})
	wantBlocked(false, 0, "a", "b", "c")
	if !worker.Same(before, b.db.ReadTxn()) {
		t.Error("a change of rows that none depends on matters")
	}
	b.put("rows", row{ID: "x"})
	wantBlocked(true, 1, "a", "b", "c")
	if worker.Same(before, b.db.ReadTxn()) {
		t.Error("a change of a row that others depend on does not matter")
	}
	b.put("rows", row{ID: "x", State: "done"})
	wantBlocked(false, 1, "a", "b", "c")
}

// TestRowsAreToldApartByQueriesIfTheirKeysAreOfNoUse has keys that cannot be found in a map.
func TestRowsAreToldApartByQueriesIfTheirKeysAreOfNoUse(t *testing.T) {
	for name, key := range map[string]any{"not comparable": []int{1}, "not equal to itself": math.NaN()} {
		b := newBed(t, "rows", "links")
		b.put("links", row{ID: "done", State: "done"}, row{ID: "pending"})
		b.put("rows", row{ID: "a", Of: "done"}, row{ID: "b", Of: "pending"}, row{ID: "c", Of: "done"})
		on := b.onOf("links")
		on.By = func(*store.Entry) any { return key }
		c := NewDependencies(b.owner("rows"), []Dependency{on}, func([]string) {}).NewChecker()
		for id, want := range map[string]bool{"a": false, "b": true, "c": false} {
			if blocked := c.Blocked(b.db.ReadTxn(), b.entry("rows", id)); blocked != want {
				t.Errorf("key %s: %s is blocked: %t", name, id, blocked)
			}
		}
	}
}

func TestDeletesOfOneTableAreInOrder(t *testing.T) {
	for name, g := range map[string]*Group{"in a group": new(Group), "alone": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "rows")
			b.put("rows", row{ID: "a"}, row{ID: "b", Of: "a"}, row{ID: "c", Of: "b"}, row{ID: "self", Of: "self"}, row{ID: "x", Of: "y"}, row{ID: "y", Of: "x"})
			on, woken := []Dependency{b.onOf("rows")}, 0
			m, err := Join(g, b.tables["rows"].Untyped(), on, func() { woken++ })
			if err != nil {
				t.Fatal(err)
			}
			o := NewOrder(b.owner("rows"), m, on, nil, nil, nil)
			m.SetActive(true)
			m.SetRead(m.revision(b.db.ReadTxn()))
			tasks := map[string]*pool.Task{}
			for _, id := range []string{"a", "b", "c", "self", "x", "y"} {
				tasks[id] = b.task(pool.Delete, "rows", id)
				o.Note(tasks[id].Item)
			}
			until := b.now.Add(MaxOrderDelay)
			b.want(o, tasks["a"], Reason{workqueue.Order, "the delete of rows b", until})
			b.want(o, tasks["b"], Reason{workqueue.Order, "the delete of rows c", until})
			for _, id := range []string{"c", "self", "x", "y"} { // nobody names it, it alone does, or they name each other
				b.want(o, tasks[id], Reason{})
			}
			tasks["c"].Item.Deleting = false
			o.Note(tasks["c"].Item)
			if woken != 1 {
				t.Errorf("woken %d times, want once", woken)
			}
			b.want(o, tasks["b"], Reason{})
			b.want(o, tasks["a"], Reason{workqueue.Order, "the delete of rows b", until})
		})
	}
}
