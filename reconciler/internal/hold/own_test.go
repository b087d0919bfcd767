package hold

import (
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
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
			o := NewOrder(b.owner("rows"), m, on)
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
