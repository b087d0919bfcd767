package hold

import (
	"fmt"
	"io"
	"io/fs"
	"testing"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// group joins tables, each of which depends on the one before it.
func (b *bed) group(t *testing.T, tables ...string) map[string]*Member {
	t.Helper()
	g, members := &Group{}, map[string]*Member{}
	for i, name := range tables {
		var on []Dependency
		if i > 0 {
			on = append(on, b.onOf(tables[i-1]))
		}
		m, err := Join(g, b.tables[name].Untyped(), on, func() {})
		if err != nil {
			t.Fatal(err)
		}
		members[name] = m
	}
	return members
}

// stranding returns a limiter of deletes of a table whose deletes come last.
func (b *bed) stranding(table string, m *Member, memory Memory) *ChangeLimiter {
	return NewChangeLimiter(b.owner(table), m, &DeletesLast{}, ChangeLimit{}.WithDefaults(), ChangeLimit{Off: true}, memory, statusOf, b.now)
}

// removed deletes a row of a table, and returns the operation, which the limiter has counted.
func (b *bed) removed(l *ChangeLimiter, table, id string) *pool.Task {
	b.t.Helper()
	task := b.task(pool.Delete, table, id)
	b.delete(table, id)
	l.CountDelete(task.Item)
	return task
}

// heldFor is the reason of a delete that would strand rows.
func heldFor(rows string) Reason {
	return Reason{Stage: workqueue.Limit, Text: "until its delete is approved: " + rows + " would lack what they depend on"}
}

func TestDeletesThatWouldStrandRowsAreHeld(t *testing.T) {
	for name, test := range map[string]struct {
		addresses, routes int // that depend on the link, and on the first address
		others            int // that do not
		want              string
	}{
		"none":              {others: 16},
		"few":               {addresses: 2, routes: 2, want: "2 of 2 rows of addresses (a0 and others) and 2 of 2 rows of routes (0 and others)"},
		"a small part":      {addresses: 1, others: 999, want: "1 of 1000 rows of addresses (a0)"},
		"by way of another": {addresses: 1, routes: 3, want: "1 of 1 rows of addresses (a0) and 3 of 3 rows of routes (0 and others)"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "links", "addresses", "routes")
			members := b.group(t, "links", "addresses", "routes")
			b.put("links", row{ID: "a"}, row{ID: "b"})
			for i := range test.addresses {
				b.put("addresses", row{ID: fmt.Sprint("a", i), Of: "a"})
			}
			for i := range test.others {
				b.put("addresses", row{ID: fmt.Sprint("b", i), Of: "b"})
			}
			for i := range test.routes {
				b.put("routes", row{ID: fmt.Sprint(i), Of: "a0"})
			}
			l := b.stranding("links", members["links"], nil)
			want := Reason{}
			if test.want != "" {
				want = heldFor(test.want)
			}
			b.want(l, b.removed(l, "links", "a"), want)
		})
	}
}

// Where deletes do not come last, rows come from programs: these know what they delete. A limit that is never exceeded holds nothing either.
// Nor do deletes strand rows if they take nothing away, or make room for what is in their place.
func TestDeletesThatStrandNothing(t *testing.T) {
	for name, test := range map[string]struct {
		last    *DeletesLast
		percent float64
		held    bool
	}{
		"strands":                   {last: &DeletesLast{}, held: true},
		"rows of programs":          {},
		"no limit":                  {last: &DeletesLast{}, percent: 100},
		"takes nothing away":        {last: &DeletesLast{Removes: func(store.ReadTxn, *store.Entry) *store.Entry { return nil }}},
		"takes something away":      {last: &DeletesLast{Removes: func(_ store.ReadTxn, row *store.Entry) *store.Entry { return row }}, held: true},
		"makes room":                {last: makesRoomFor("b", fs.ErrExist)},
		"makes room for another":    {last: makesRoomFor("c", fs.ErrExist), held: true},
		"another that fails anyway": {last: makesRoomFor("b", io.ErrUnexpectedEOF), held: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "links", "routes")
			on := b.onOf("links")
			on.On = func(_ *store.Entry, yield func(store.Query) bool) {
				_ = yield(byID.Query("a").Untyped()) && yield(byID.Query("b").Untyped())
			}
			on.OneOf = oneSet(on.On)
			m := b.needed(t, "links", "routes", on)
			b.put("links", row{ID: "a", State: "done"}, row{ID: "b", State: "error"})
			b.put("routes", row{ID: "0"})
			limit := ChangeLimit{Percent: test.percent}.WithDefaults()
			l := NewChangeLimiter(b.owner("links"), m, test.last, limit, ChangeLimit{Off: true}, nil, statusOf, b.now)
			want := Reason{}
			if test.held {
				want = heldFor("1 of 1 rows of routes (0)")
			}
			b.want(l, b.removed(l, "links", "a"), want)
		})
	}
}

// makesRoomFor is for deletes that make room for a row whose update has failed.
func makesRoomFor(id string, err error) *DeletesLast {
	return &DeletesLast{
		RemovedFirst: func(_ store.ReadTxn, _ *store.Entry, yield func(store.Query) bool) { yield(byID.Query(id).Untyped()) },
		Error:        func(string) error { return err },
	}
}

// oneSet returns a function that yields one set, of all queries of a row.
func oneSet(on func(*store.Entry, func(store.Query) bool)) func(*store.Entry, func(Queries) bool) {
	return func(row *store.Entry, yield func(Queries) bool) {
		yield(func(yield func(store.Query) bool) { on(row, yield) })
	}
}

// A route can do with an address in place of another route, but not the other way round.
func TestRowsAreNotStrandedIfTheyCanDoWithRowsOfAnotherTable(t *testing.T) {
	for name, test := range map[string]struct {
		address string // its state
		deleted string // the table
		want    Reason
	}{
		"the address is there":            {"done", "ways", Reason{}},
		"it is not":                       {"error", "ways", heldFor("1 of 1 rows of routes (0)")},
		"the address is deleted, instead": {"done", "addresses", heldFor("1 of 1 rows of routes (0)")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "ways", "addresses", "routes")
			ways, addresses := b.onOf("ways"), b.onOf("addresses")
			ways.OneOf, addresses.OneOf, ways.Or = oneSet(ways.On), oneSet(addresses.On), &addresses
			g := &Group{}
			m, err := Join(g, b.tables[test.deleted].Untyped(), nil, func() {})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Join(g, b.tables["routes"].Untyped(), []Dependency{ways, addresses}, func() {}); err != nil {
				t.Fatal(err)
			}
			b.put("ways", row{ID: "a", State: "done"})
			b.put("addresses", row{ID: "a", State: test.address})
			b.put("routes", row{ID: "0", Of: "a"})
			l := b.stranding(test.deleted, m, nil)
			b.want(l, b.removed(l, test.deleted, "a"), test.want)
		})
	}
}

// A delete may have waited for something else since it was checked, as may one that was let through, or has failed.
func TestRowsAreStrandedIfWhatIsLeftFailsWhileADeleteWaits(t *testing.T) {
	for _, admitted := range []bool{false, true} {
		b := newBed(t, "addresses", "routes")
		on := b.onOf("addresses")
		on.On = func(_ *store.Entry, yield func(store.Query) bool) {
			_ = yield(byID.Query("a").Untyped()) && yield(byID.Query("b").Untyped()) && yield(byID.Query("c").Untyped())
		}
		on.OneOf = oneSet(on.On)
		m := b.needed(t, "addresses", "routes", on)
		b.put("addresses", row{ID: "a", State: "done"}, row{ID: "b", State: "done"}, row{ID: "c", State: "done"})
		b.put("routes", row{ID: "0"})
		l := b.stranding("addresses", m, nil)
		first, waits := b.removed(l, "addresses", "a"), b.removed(l, "addresses", "b")
		b.want(l, first, Reason{})
		if admitted {
			b.want(l, waits, Reason{})
		}
		l.Succeeded(first, b.now)
		b.put("addresses", row{ID: "c", State: "error"})
		b.now = b.now.Add(time.Minute)
		b.want(l, waits, heldFor("1 of 1 rows of routes (0)"))
		if got := l.Held(); len(got) != 1 || got[0].Items != 1 {
			t.Errorf("admitted before: %t, held %+v", admitted, got)
		}
	}
}

// A delete may have waited for something else since it was checked.
func TestRowsThatAreDeclaredWhileADeleteWaitsAreStranded(t *testing.T) {
	for name, test := range map[string]struct {
		declare []row
		want    Reason
	}{
		"none":       {nil, Reason{}},
		"another":    {[]row{{ID: "0", Of: "b", State: "done"}}, Reason{}},
		"a new one":  {[]row{{ID: "1", Of: "a"}}, heldFor("1 of 2 rows of routes (1)")},
		"an old one": {[]row{{ID: "0", Of: "a"}}, heldFor("1 of 1 rows of routes (0)")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "links", "routes")
			members := b.group(t, "links", "routes")
			b.put("links", row{ID: "a"}, row{ID: "c"})
			b.put("routes", row{ID: "0", Of: "b"})
			l := b.stranding("links", members["links"], nil)
			first, waits := b.removed(l, "links", "c"), b.removed(l, "links", "a")
			b.want(l, first, Reason{})
			b.put("routes", test.declare...)
			b.now = b.now.Add(time.Minute)
			b.want(l, waits, test.want)
		})
	}
}

// What is held is released when the rows that would be stranded go, too, or can do without.
func TestDeletesThatStrandNothingAnyMoreAreReleased(t *testing.T) {
	for name, mend := range map[string]func(b *bed, l *ChangeLimiter, task *pool.Task){
		"the dependents are deleted": func(b *bed, _ *ChangeLimiter, _ *pool.Task) { b.delete("routes", "0", "1", "2") },
		"they depend on another": func(b *bed, _ *ChangeLimiter, _ *pool.Task) {
			b.put("routes", row{ID: "0", Of: "b"}, row{ID: "1", Of: "b"}, row{ID: "2", Of: "b"})
		},
		"the row is back": func(b *bed, l *ChangeLimiter, task *pool.Task) {
			b.put("links", row{ID: "a"})
			l.Discount(task.Item)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "links", "routes")
			members := b.group(t, "links", "routes")
			b.put("links", row{ID: "a"}, row{ID: "b", State: "done"})
			b.put("routes", row{ID: "0", Of: "a"}, row{ID: "1", Of: "a"}, row{ID: "2", Of: "a"})
			m := &memory{}
			l := b.stranding("links", members["links"], m)
			task := b.removed(l, "links", "a")
			if _, held := l.Holds(task, b.db.ReadTxn(), b.now); !held || m.held == nil {
				t.Errorf("held: %t, remembered: %v", held, m.held)
			}
			b.now = l.NextTry().Add(1)
			if l.Expire(b.now); l.Relieve(b.now) {
				t.Error("released while nothing had changed")
			}
			mend(b, l, task)
			b.now = l.NextTry().Add(1)
			if l.Expire(b.now); !l.Relieve(b.now) || m.held != nil || !l.NextTry().IsZero() {
				t.Errorf("not released; remembered: %v", m.held)
			}
		})
	}
}

// While orphans are not known, what is held is not checked. When they are, it is released if nothing is stranded any more.
func TestHeldDeletesAreCheckedWhenOrphansAreKnown(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBed(t, "links", "routes")
		members := b.group(t, "links", "routes")
		b.put("links", row{ID: "a"}, row{ID: "b", State: "done"})
		b.put("routes", row{ID: "0", Of: "a"}, row{ID: "1", Of: "a"}, row{ID: "2", Of: "a"})
		m := &memory{}
		begin := func() *ChangeLimiter { return b.stranding("links", members["links"], m) }
		l := begin()
		task := b.removed(l, "links", "a")
		if _, held := l.Holds(task, b.db.ReadTxn(), b.now); !held {
			t.Error("not held")
		}
		if restart {
			l = begin()
			l.CountDelete(task.Item)
		}
		l.Postponed()
		b.now = b.now.Add(time.Minute)
		if l.Expire(b.now); !l.NextTry().IsZero() || l.Relieve(b.now) {
			t.Errorf("restart %t: relieved, or to be checked at %v, at %v", restart, l.NextTry(), b.now)
		}
		b.put("routes", row{ID: "0", Of: "b"}, row{ID: "1", Of: "b"}, row{ID: "2", Of: "b"})
		l.Searched(b.now)
		if !l.Relieve(b.now) || m.held != nil {
			t.Errorf("restart %t: not released; remembered %v", restart, m.held)
		}
	}
}

// What rows depend on instead must be done: a slip in the device of an address leaves one that the target will never have.
func TestRowsAreStrandedUnlessWhatIsLeftIsDone(t *testing.T) {
	held := heldFor("3 of 3 rows of routes (0 and others)")
	for name, test := range map[string]struct {
		state, later string // of what is left
		serves       func() bool
		want         Reason // later
	}{
		"done":          {state: "done", later: "done"},
		"in error":      {state: "error", later: "error", want: held},
		"pending":       {want: held},
		"soon done":     {later: "done"},
		"soon in error": {later: "error", want: held},
		"done at first": {state: "done", later: "error"}, // the last check was just now
		"good enough":   {state: "done", later: "done", serves: func() bool { return true }},
		"not good":      {state: "done", later: "done", serves: func() bool { return false }, want: held},
		"panics":        {state: "done", later: "done", serves: func() bool { panic("no") }, want: held},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "addresses", "routes")
			on := b.onOf("addresses")
			on.On = func(_ *store.Entry, yield func(store.Query) bool) {
				_ = yield(byID.Query("a").Untyped()) && yield(byID.Query("b").Untyped())
			}
			on.OneOf = oneSet(on.On)
			if test.serves != nil {
				on.Serves = func(store.ReadTxn, *store.Entry) bool { return test.serves() }
			}
			m := b.needed(t, "addresses", "routes", on)
			b.put("addresses", row{ID: "a", State: "done"}, row{ID: "b", State: test.state})
			b.put("routes", row{ID: "0"}, row{ID: "1"}, row{ID: "2"})
			l := b.stranding("addresses", m, nil)
			task := b.removed(l, "addresses", "a")
			for why, waits := b.holds(l, task); waits && why.Stage == workqueue.Order; why, waits = b.holds(l, task) {
				if b.now = why.Until; b.now.After(time.Unix(1000, 0).Add(2 * checkInterval)) {
					t.Fatal("it waits too long")
				}
				b.put("addresses", row{ID: "b", State: test.later})
			}
			b.put("addresses", row{ID: "b", State: test.later})
			b.want(l, task, test.want)
		})
	}
}

// needed makes the rows of a table depend on those of another one, and returns the member of the latter.
func (b *bed) needed(t testing.TB, table, dependent string, on ...Dependency) *Member {
	t.Helper()
	g := &Group{}
	m, err := Join(g, b.tables[table].Untyped(), nil, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Join(g, b.tables[dependent].Untyped(), on, func() {}); err != nil {
		t.Fatal(err)
	}
	return m
}

// What rows need is each of the rows that they name or, if those are alternatives, one of each set.
func TestRowsAreStrandedIfTheyLoseSomethingThatTheyNeed(t *testing.T) {
	named := func(ids ...string) Queries {
		return func(yield func(store.Query) bool) {
			for _, id := range ids {
				if !yield(byID.Query(id).Untyped()) {
					return
				}
			}
		}
	}
	for name, test := range map[string]struct {
		sets [][]string // nil: all are needed
		held bool
	}{
		"all":                         {nil, true},
		"one":                         {[][]string{{"a", "b", "c"}}, false},
		"one of two sets":             {[][]string{{"a", "b"}, {"c"}}, false},
		"one of two sets, and a":      {[][]string{{"b", "c"}, {"a"}}, true},
		"one that does not exist":     {[][]string{{"a", "d"}, {"b"}}, true},
		"one, and nothing is lost":    {[][]string{{"b"}, {"c"}}, false},
		"one of two sets that have a": {[][]string{{"a", "b"}, {"a", "c"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "links", "routes")
			on := b.onOf("links")
			on.On = func(_ *store.Entry, yield func(store.Query) bool) { named("a", "b", "c", "d")(yield) }
			if test.sets != nil {
				on.OneOf = func(_ *store.Entry, yield func(Queries) bool) {
					for _, set := range test.sets {
						if !yield(named(set...)) {
							return
						}
					}
				}
			}
			m := b.needed(t, "links", "routes", on)
			b.put("links", row{ID: "a", State: "done"}, row{ID: "b", State: "done"}, row{ID: "c", State: "done"})
			b.put("routes", row{ID: "0"}, row{ID: "1"}, row{ID: "2"})
			l := b.stranding("links", m, nil)
			want := Reason{}
			if test.held {
				want = heldFor("3 of 3 rows of routes (0 and others)")
			}
			b.want(l, b.removed(l, "links", "a"), want)
		})
	}
}

// BenchmarkStrandsEach is the check of many deletes, each of which strands a row of its own, and with it another one.
func BenchmarkStrandsEach(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			bed := newBed(b, "links", "routes")
			links := bed.needed(b, "links", "routes", bed.onOf("links"), bed.onOf("routes"))
			var deleted []*store.Entry
			rows := make([]row, 0, 2*n)
			for i := range n {
				bed.put("links", row{ID: fmt.Sprint("link", i)})
				deleted = append(deleted, bed.entry("links", fmt.Sprint("link", i)))
				bed.delete("links", fmt.Sprint("link", i))
				rows = append(rows, row{ID: fmt.Sprint(i), Of: fmt.Sprint("link", i)}, row{ID: fmt.Sprint(i, "next"), Of: fmt.Sprint(i)})
			}
			bed.put("routes", rows...)
			for b.Loop() {
				if text, _, _ := links.strands(bed.db.ReadTxn(), deleted, &DeletesLast{}); text == "" {
					b.Fatal("nothing is stranded")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
		})
	}
}

// BenchmarkStrands is the check of a delete that 100,000 rows of another table may depend on.
func BenchmarkStrands(b *testing.B) {
	bed := newBed(b, "links", "routes")
	links := bed.needed(b, "links", "routes", bed.onOf("links"))
	rows := make([]row, 100_000)
	for i := range rows {
		rows[i] = row{ID: fmt.Sprint(i), Of: fmt.Sprint("link", i%1000)}
	}
	bed.put("routes", rows...)
	bed.put("links", row{ID: "link7"})
	gone := []*store.Entry{bed.entry("links", "link7")}
	bed.delete("links", "link7")
	for b.Loop() {
		if text, _, _ := links.strands(bed.db.ReadTxn(), gone, &DeletesLast{}); text == "" {
			b.Fatal("nothing is stranded")
		}
	}
}

func TestATableThatWasDroppedStrandsNothing(t *testing.T) {
	b := newBed(t, "links", "routes")
	members := b.group(t, "links", "routes")
	b.put("links", row{ID: "a"}, row{ID: "b", State: "done"})
	b.put("routes", row{ID: "0", Of: "a"}, row{ID: "1", Of: "a"}, row{ID: "2", Of: "a"})
	l := b.stranding("links", members["links"], nil)
	members["routes"].Leave()
	if err := b.db.Drop(t.Context(), b.tables["routes"]); err != nil {
		t.Fatal(err)
	}
	b.want(l, b.removed(l, "links", "a"), Reason{})
}
