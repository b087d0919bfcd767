package hold

import (
	"context"
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// onOf is a dependency of rows on the one of another table with the key Of.
func (b *bed) onOf(table string) Dependency {
	return Dependency{
		Table: b.tables[table].Untyped(), Status: statusOf,
		On: func(e *store.Entry, yield func(store.Query) bool) {
			switch of := rowOf(e).Of; of {
			case "":
			case "panic":
				panic("no")
			default:
				yield(byID.Query(of).Untyped())
			}
		},
	}
}

func TestUpdateWaitsForRowsThatAreNotDone(t *testing.T) {
	b := newBed(t, "rows", "links")
	b.put("links", row{ID: "done", State: "done"}, row{ID: "pending"}, row{ID: "failed", State: "error"})
	c := NewDependencies(b.owner("rows"), []Dependency{b.onOf("links")}, func(keys []string) { t.Errorf("released %q", keys) }).NewChecker()
	for of, text := range map[string]string{
		"": "", "nobody": "", "done": "",
		"pending": "links pending, which is pending",
		"failed":  "links failed, which is in error: unexpected EOF",
		"panic":   "unknown rows of table links: panic: no",
	} {
		b.put("rows", row{ID: of + "!", Of: of})
		want := Reason{Stage: workqueue.Dependency, Text: text}
		if text == "" {
			want = Reason{}
		}
		task := b.task(pool.Update, "rows", of+"!")
		b.want(c, task, want)
		if c.Blocked(b.db.ReadTxn(), task.Entry) != (text != "") {
			t.Errorf("%s: blocked is not what the policy says", of)
		}
		b.want(c, b.task(pool.Delete, "rows", of+"!"), Reason{})
	}
}

func TestRowIsReleasedWhenWhatItDependsOnChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, "rows", "links")
		b.put("links", row{ID: "x"}, row{ID: "y"})
		b.put("rows", row{ID: "a", Of: "x"}, row{ID: "b", Of: "y"})
		var released []string
		d := NewDependencies(b.owner("rows"), []Dependency{b.onOf("links")}, func(keys []string) { released = append(released, keys...) })
		c := d.NewChecker()
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go d.Follow(0)(ctx)
		a, other := b.task(pool.Update, "rows", "a"), b.task(pool.Update, "rows", "b")
		b.holds(c, a)
		b.holds(c, other)
		before := b.db.ReadTxn()
		b.put("links", row{ID: "x", State: "done"})
		synctest.Wait()
		if want := []string{a.Item.Key}; !slices.Equal(released, want) {
			t.Errorf("released %q, want %q", released, want)
		}
		b.want(c, a, Reason{})
		if now := b.db.ReadTxn(); c.Same(before, now) || !c.Same(now, now) {
			t.Error("what blocks rows has changed once")
		}
	})
}

// TestChangeBeforeTheRowIsKnownToWaitReleasesIt asks about a snapshot that is old already.
func TestChangeBeforeTheRowIsKnownToWaitReleasesIt(t *testing.T) {
	b := newBed(t, "rows", "links")
	b.put("links", row{ID: "x"})
	b.put("rows", row{ID: "a", Of: "x"})
	var released []string
	c := NewDependencies(b.owner("rows"), []Dependency{b.onOf("links")}, func(keys []string) { released = append(released, keys...) }).NewChecker()
	old, task := b.db.ReadTxn(), b.task(pool.Update, "rows", "a")
	b.put("links", row{ID: "x", State: "done"})
	if _, held := c.Holds(task, old, b.now); !held || !slices.Equal(released, []string{task.Item.Key}) {
		t.Errorf("held %t, released %q", held, released)
	}
}

func TestDoneRowThatDiffersFromWhatIsObservedBlocks(t *testing.T) {
	b := newBed(t, "rows", "links", "seen")
	b.put("links", row{ID: "x", State: "done"})
	b.put("rows", row{ID: "a", Of: "x"})
	on := b.onOf("links")
	on.Observed = []*Observation{b.observed("seen")}
	c := NewDependencies(b.owner("rows"), []Dependency{on}, func(keys []string) { t.Errorf("released %q", keys) }).NewChecker()
	b.want(c, b.task(pool.Update, "rows", "a"), Reason{
		Stage: workqueue.Dependency, Text: `links x, which differs from the observed state: row is "", not "x"`,
	})
	b.put("seen", row{ID: "x"})
	b.want(c, b.task(pool.Update, "rows", "a"), Reason{})
}

func TestUpdateDoesNotWaitForRowsThatAreTolerated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, "rows", "links", "seen", "others")
		b.put("links", row{ID: "x", State: "error"}, row{ID: "y"}, row{ID: "z", State: "done"})
		b.put("rows", row{ID: "a", Of: "x"}, row{ID: "b", Of: "y"}, row{ID: "c", Of: "z"})
		on := b.onOf("links")
		on.Observed = []*Observation{b.observed("seen"), b.observed("others")}
		on.Observed[1].Compare = func(store.ReadTxn, *store.Entry) []Change { return nil }
		on.Tolerates = func(txn store.ReadTxn, e *store.Entry) bool {
			for range found(b.tables["others"].Untyped(), txn, rowOf(e).ID) {
				return true
			}
			return false
		}
		var released []string
		d := NewDependencies(b.owner("rows"), []Dependency{on}, func(keys []string) { released = append(released, keys...) })
		c := d.NewChecker()
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go d.Follow(0)(ctx)
		synctest.Wait()
		var want []string
		for _, id := range []string{"a", "b", "c"} {
			task := b.task(pool.Update, "rows", id)
			if _, held := b.holds(c, task); !held {
				t.Errorf("%s is not held", id)
			}
			want = append(want, task.Item.Key)
		}
		b.put("others", row{ID: "x"}, row{ID: "y"}, row{ID: "z"})
		synctest.Wait()
		if slices.Sort(released); !slices.Equal(released, want) {
			t.Errorf("released %q, want %q", released, want)
		}
		for _, id := range []string{"a", "b", "c"} {
			b.want(c, b.task(pool.Update, "rows", id), Reason{})
		}
	})
}

// observed is an observation that wants a row of a table with the same key.
func (b *bed) observed(table string) *Observation {
	return &Observation{
		Table: b.tables[table].Untyped(),
		Rows: func(_ store.ReadTxn, seen *store.Entry, yield func(store.Query) bool) {
			yield(byID.Query(rowOf(seen).ID).Untyped())
		},
		Compare: func(txn store.ReadTxn, want *store.Entry) []Change {
			id := rowOf(want).ID
			for range found(b.tables[table].Untyped(), txn, id) {
				return nil
			}
			return []Change{{Field: "row", Want: id}}
		},
	}
}

func found(table *store.Table, txn store.ReadTxn, id string) iter.Seq[*store.Entry] {
	return table.List(txn, byID.Query(id).Untyped(), nil).Entries()
}
