package hold

import (
	"fmt"
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

func TestDeletesThatWouldStrandManyRowsAreHeld(t *testing.T) {
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
	for name, test := range map[string]struct {
		addresses, routes int // that depend on the link, and on the first address
		others            int // that do not
		want              string
	}{
		"few":               {addresses: 2, routes: 2},
		"a small part":      {addresses: 4, routes: 0, others: 16},
		"many":              {addresses: 3, want: "3 of 3 rows of addresses"},
		"by way of another": {addresses: 1, routes: 3, want: "3 of 3 rows of routes"},
		"both":              {addresses: 3, routes: 3, want: "3 of 3 rows of addresses and 3 of 3 rows of routes"},
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
			l := NewChangeLimiter(b.owner("links"), members["links"], limit, ChangeLimit{Off: true}, nil, statusOf, b.now)
			task := b.task(pool.Delete, "links", "a")
			b.delete("links", "a")
			l.CountDelete(task.Item)
			want := Reason{}
			if test.want != "" {
				want = heldBy(pool.Delete)
				want.Text = "until its delete is approved: " + test.want + " would lack what they depend on"
			}
			b.want(l, task, want)
		})
	}
}

// What is held is released when the rows that would be stranded go, too, or can do without.
func TestDeletesThatStrandNothingAnyMoreAreReleased(t *testing.T) {
	for name, mend := range map[string]func(b *bed, l *ChangeLimiter, task *pool.Task){
		"the dependents are deleted": func(b *bed, _ *ChangeLimiter, _ *pool.Task) { b.delete("routes", "0", "1", "2") },
		"they depend on another":     func(b *bed, _ *ChangeLimiter, _ *pool.Task) { b.put("routes", row{ID: "0", Of: "b"}) },
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
			limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
			m := &memory{}
			l := NewChangeLimiter(b.owner("links"), members["links"], limit, ChangeLimit{Off: true}, m, statusOf, b.now)
			task := b.task(pool.Delete, "links", "a")
			b.delete("links", "a")
			l.CountDelete(task.Item)
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
		limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
		m := &memory{}
		begin := func() *ChangeLimiter {
			return NewChangeLimiter(b.owner("links"), members["links"], limit, ChangeLimit{Off: true}, m, statusOf, b.now)
		}
		l, task := begin(), b.task(pool.Delete, "links", "a")
		b.delete("links", "a")
		l.CountDelete(task.Item)
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
		b.put("routes", row{ID: "0", Of: "b"}, row{ID: "1", Of: "b"})
		l.Searched(b.now)
		if !l.Relieve(b.now) || m.held != nil {
			t.Errorf("restart %t: not released; remembered %v", restart, m.held)
		}
	}
}

// Slips in several documents, or in tables of several kinds, add up.
func TestStrandedRowsAddUpWithinTheWindow(t *testing.T) {
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
	for after, want := range map[time.Duration]bool{0: true, time.Minute: true, time.Minute + 1: false} {
		b := newBed(t, "links", "routes")
		members := b.group(t, "links", "routes")
		b.put("links", row{ID: "a"}, row{ID: "b"})
		b.put("routes", row{ID: "0", Of: "a"}, row{ID: "1", Of: "a"}, row{ID: "2", Of: "b"}, row{ID: "3", Of: "b"})
		l := NewChangeLimiter(b.owner("links"), members["links"], limit, ChangeLimit{Off: true}, nil, statusOf, b.now)
		holds := func(id string) bool {
			task := b.task(pool.Delete, "links", id)
			b.delete("links", id)
			l.CountDelete(task.Item)
			_, held := l.Holds(task, b.db.ReadTxn(), b.now)
			if !held {
				l.Succeeded(task, b.now)
			}
			return held
		}
		if holds("a") {
			t.Error("the first one is held")
		}
		b.now = b.now.Add(after + time.Second) // in which no check may be made
		if after > 0 {
			b.now = b.now.Add(-time.Second)
		}
		if held := holds("b"); held != want {
			t.Errorf("%v later: held %t", after, held)
		}
		b.now = b.now.Add(time.Hour)
		if l.Expire(b.now); l.Relieve(b.now) {
			t.Error("time alone has released it")
		}
	}
}

// Rows of a table that are deleted, and those that deletes of another table strand, add up, in any order.
func TestDeletedAndStrandedRowsAddUp(t *testing.T) {
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
	strandedText := "until its delete is approved: 2 of 4 rows of routes (4 with those lost within 1m0s) would lack what they depend on"
	for name, test := range map[string]struct {
		first, then string        // what is deleted, link or routes
		fails       bool          // the first deletes have not succeeded yet
		after       time.Duration // what is then deleted
		want        string
	}{
		"deleted, then stranded": {first: "routes", then: "link", want: strandedText},
		"at the same time":       {first: "routes", then: "link", fails: true, want: strandedText},
		"long after":             {first: "routes", then: "link", after: time.Minute + 1},
		"stranded, then deleted": {
			first: "link", then: "routes",
			want: "until its delete is approved: more than 2 rows and 20 % of the table within 1m0s, with the 2 that have lost what they depend on",
		},
		"deleted long after": {first: "link", then: "routes", after: time.Minute + 1},
		"the same rows":      {first: "link", then: "stranded routes"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "links", "routes")
			members := b.group(t, "links", "routes")
			b.put("links", row{ID: "a"}, row{ID: "b"})
			b.put("routes", row{ID: "0", Of: "a"}, row{ID: "1", Of: "a"}, row{ID: "2", Of: "b"}, row{ID: "3", Of: "b"})
			limiters := map[string]*ChangeLimiter{}
			for table, m := range members {
				limiters[table] = NewChangeLimiter(b.owner(table), m, limit, ChangeLimit{Off: true}, nil, statusOf, b.now)
			}
			remove := func(what string) (l *ChangeLimiter, tasks []*pool.Task) {
				table, ids := "routes", []string{"2", "3"}
				switch what {
				case "link":
					table, ids = "links", []string{"a"}
				case "stranded routes":
					ids = []string{"0", "1"}
				}
				for _, id := range ids {
					tasks = append(tasks, b.task(pool.Delete, table, id))
				}
				b.delete(table, ids...)
				for _, task := range tasks {
					limiters[table].CountDelete(task.Item)
				}
				return limiters[table], tasks
			}
			l, tasks := remove(test.first)
			for _, task := range tasks {
				if b.want(l, task, Reason{}); !test.fails {
					l.Succeeded(task, b.now)
				}
			}
			b.now = b.now.Add(test.after)
			for _, l := range limiters {
				l.Expire(b.now)
			}
			want := Reason{}
			if test.want != "" {
				want = Reason{Stage: workqueue.Limit, Text: test.want}
			}
			l, tasks = remove(test.then)
			for _, task := range tasks {
				b.want(l, task, want)
			}
			b.now = b.now.Add(time.Hour)
			for _, l := range limiters {
				if l.Expire(b.now); l.Relieve(b.now) {
					t.Error("time alone has released something")
				}
			}
		})
	}
}

// What rows depend on instead must be done: a slip in the device of an address leaves one that the target will never have.
func TestRowsAreStrandedUnlessWhatIsLeftIsDone(t *testing.T) {
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
	held := Reason{workqueue.Limit, "until its delete is approved: 3 of 3 rows of routes would lack what they depend on", time.Time{}}
	for name, test := range map[string]struct {
		state, later string // of what is left
		want         Reason // later
	}{
		"done":          {"done", "done", Reason{}},
		"in error":      {"error", "error", held},
		"pending":       {"", "", held},
		"soon done":     {"", "done", Reason{}},
		"soon in error": {"", "error", held},
		"done at first": {"done", "error", Reason{}}, // what was let through remains so
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "addresses", "routes")
			on := b.onOf("addresses")
			on.On = func(_ *store.Entry, yield func(store.Query) bool) {
				_ = yield(byID.Query("a").Untyped()) && yield(byID.Query("b").Untyped())
			}
			on.OneOf = func(row *store.Entry, yield func(Queries) bool) {
				yield(func(yield func(store.Query) bool) { on.On(row, yield) })
			}
			m := b.needed(t, "addresses", "routes", on)
			b.put("addresses", row{ID: "a", State: "done"}, row{ID: "b", State: test.state})
			b.put("routes", row{ID: "0"}, row{ID: "1"}, row{ID: "2"})
			l := NewChangeLimiter(b.owner("addresses"), m, limit, ChangeLimit{Off: true}, nil, statusOf, b.now)
			task := b.task(pool.Delete, "addresses", "a")
			b.delete("addresses", "a")
			l.CountDelete(task.Item)
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
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
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
			l := NewChangeLimiter(b.owner("links"), m, limit, ChangeLimit{Off: true}, nil, statusOf, b.now)
			task := b.task(pool.Delete, "links", "a")
			b.delete("links", "a")
			l.CountDelete(task.Item)
			want := Reason{}
			if test.held {
				want = Reason{workqueue.Limit, "until its delete is approved: 3 of 3 rows of routes would lack what they depend on", time.Time{}}
			}
			b.want(l, task, want)
		})
	}
}

// Rows that depend on rows whose deletes are held have lost nothing.
func TestDeletesThatStayHeldStrandNothing(t *testing.T) {
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
	b := newBed(t, "links", "routes")
	members := b.group(t, "links", "routes")
	links := NewChangeLimiter(b.owner("links"), members["links"], limit, ChangeLimit{Off: true}, nil, statusOf, b.now)
	routes := NewChangeLimiter(b.owner("routes"), members["routes"], limit, ChangeLimit{Off: true}, nil, statusOf, b.now)
	b.put("routes", row{ID: "0", Of: "l0"}, row{ID: "1", Of: "l1"}, row{ID: "2"})
	var tasks []*pool.Task
	for i := range 5 {
		id := fmt.Sprint("l", i)
		b.put("links", row{ID: id})
		tasks = append(tasks, b.task(pool.Delete, "links", id))
		b.delete("links", id)
	}
	for _, task := range tasks {
		links.CountDelete(task.Item)
	}
	back := func(i int) (relieved bool) { // one of them is declared again
		links.Discount(tasks[i].Item)
		b.now = b.now.Add(time.Second)
		links.Expire(b.now)
		return links.Relieve(b.now)
	}
	remove := func() (held bool) { // a route, which is then declared again
		task := b.task(pool.Delete, "routes", "2")
		b.delete("routes", "2")
		routes.CountDelete(task.Item)
		_, held = b.holds(routes, task)
		b.put("routes", row{ID: "2"})
		routes.Discount(task.Item)
		return held
	}
	b.want(links, tasks[0], heldBy(pool.Delete))
	if back(4) || remove() {
		t.Error("4 of 5 deletes were released, or the delete of a route is held")
	}
	if back(3); !back(2) {
		t.Error("2 of 5 deletes are held")
	}
	b.now = b.now.Add(time.Second)
	b.want(links, tasks[0], Reason{})
	if !remove() {
		t.Error("what the released deletes have stranded does not count")
	}
}

// The documents of another, larger machine do not strand all rows of this one.
func TestRowsThatWereJustAddedDoNotLetMoreBeStranded(t *testing.T) {
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
	b := newBed(t, "links", "routes")
	members := b.group(t, "links", "routes")
	b.put("links", row{ID: "a"})
	b.put("routes", row{ID: "0", Of: "a"}, row{ID: "1", Of: "a"}, row{ID: "2", Of: "a"})
	links := NewChangeLimiter(b.owner("links"), members["links"], limit, ChangeLimit{Off: true}, nil, statusOf, b.now)
	routes := NewChangeLimiter(b.owner("routes"), members["routes"], limit, ChangeLimit{Off: true}, nil, statusOf, b.now)
	routes.CountRows(b.db.ReadTxn(), b.now)
	for i := range 20 {
		b.put("routes", row{ID: fmt.Sprint("new", i), Of: "b"})
	}
	routes.CountRows(b.db.ReadTxn(), b.now)
	task := b.task(pool.Delete, "links", "a")
	b.delete("links", "a")
	links.CountDelete(task.Item)
	b.want(links, task, Reason{workqueue.Limit, "until its delete is approved: 3 of 23 rows of routes would lack what they depend on", time.Time{}})
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
				if text, _ := links.strands(bed.db.ReadTxn(), deleted, ChangeLimit{}.WithDefaults(), nil, bed.now); text == "" {
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
	limit := ChangeLimit{}.WithDefaults()
	for b.Loop() {
		if text, _ := links.strands(bed.db.ReadTxn(), gone, limit, nil, bed.now); text != "" {
			b.Fatal(text)
		}
	}
}

func TestATableThatWasDroppedStrandsNothing(t *testing.T) {
	b := newBed(t, "links", "routes")
	members := b.group(t, "links", "routes")
	b.put("links", row{ID: "a"}, row{ID: "b", State: "done"})
	b.put("routes", row{ID: "0", Of: "a"}, row{ID: "1", Of: "a"}, row{ID: "2", Of: "a"})
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
	l := NewChangeLimiter(b.owner("links"), members["links"], limit, ChangeLimit{Off: true}, nil, statusOf, b.now)
	members["routes"].Leave()
	if err := b.db.Drop(t.Context(), b.tables["routes"]); err != nil {
		t.Fatal(err)
	}
	task := b.task(pool.Delete, "links", "a")
	b.delete("links", "a")
	l.CountDelete(task.Item)
	b.want(l, task, Reason{})
}
