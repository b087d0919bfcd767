package hold

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
	"github.com/statehive/statehive/statedb"
)

func TestCycleOfDependenciesIsRefused(t *testing.T) {
	b := newBed(t, "a", "b", "c")
	join := func(g *Group, table string, on ...string) error {
		var depends []Dependency
		for _, other := range on {
			depends = append(depends, b.onOf(other))
		}
		_, err := Join(g, b.tables[table].Untyped(), depends, func() {})
		return err
	}
	g := new(Group)
	if err := errors.Join(join(g, "a", "a", "b"), join(g, "b", "c"), join(nil, "c", "a")); err != nil {
		t.Fatal(err)
	}
	for _, on := range [][]string{{"a"}, {"b"}, {"c", "a"}} {
		if err := join(g, "c", on...); !errors.Is(err, ErrCycle) {
			t.Errorf("c on %v: %v, want %v", on, err, ErrCycle)
		}
	}
	if err := join(g, "c", "c"); err != nil {
		t.Errorf("those that were refused are still there, or one on the own table is refused: %v", err)
	}
}

// TestDeleteWaitsForThoseOfRowsThatDependOnItsRow has links, and routes that depend on them.
func TestDeleteWaitsForThoseOfRowsThatDependOnItsRow(t *testing.T) {
	b := newBed(t, "links", "routes")
	b.put("links", row{ID: "x"}, row{ID: "y"})
	b.put("routes", row{ID: "r", Of: "x"})
	g, woken := new(Group), 0
	links, err := Join(g, b.tables["links"].Untyped(), nil, func() { woken++ })
	if err != nil {
		t.Fatal(err)
	}
	on := []Dependency{b.onOf("links")}
	routes, err := Join(g, b.tables["routes"].Untyped(), on, func() {})
	if err != nil {
		t.Fatal(err)
	}
	order, ofRoutes := NewOrder(b.owner("links"), links, nil, nil, nil, nil), NewOrder(b.owner("routes"), routes, on, nil, nil, nil)
	x, r := b.task(pool.Delete, "links", "x"), b.task(pool.Delete, "routes", "r")
	b.want(order, x, Reason{}) // routes does not run

	routes.SetActive(true)
	b.want(order, b.task(pool.Update, "links", "x"), Reason{})
	x.Item.Deleting = true
	until := b.now.Add(MaxOrderDelay)
	b.want(order, x, Reason{workqueue.Order, "a search for orphans of routes", until}) // too many of them would be held
	if routes.SetSearched(); woken != 1 {
		t.Errorf("woken %d times, want once", woken)
	}
	woken = 0
	routes.SetUnsearched(false) // for a moment
	b.want(order, x, Reason{workqueue.Order, "changes of routes that have not been read yet", until})
	ofRoutes.Note(r.Item)
	routes.SetRead(routes.revision(b.db.ReadTxn()))
	if woken != 1 {
		t.Errorf("woken %d times, want once", woken)
	}
	b.want(order, x, Reason{workqueue.Order, "the delete of routes r", until})
	b.want(order, b.task(pool.Delete, "links", "y"), Reason{})
	b.want(ofRoutes, r, Reason{})

	b.now = until
	b.want(order, x, Reason{}) // it has waited too long
	b.now = until.Add(-1)
	b.want(order, x, Reason{workqueue.Order, "the delete of routes r", until})
	r.Item.Deleting = false
	ofRoutes.Note(r.Item)
	if woken != 2 {
		t.Errorf("woken %d times, want twice", woken)
	}
	b.want(order, x, Reason{})
}

// At a start, the reconciler of links may find a link that nobody declares before that of routes finds
// the routes that go with it.
func TestTheDeleteOfAnOrphanWaitsUntilOthersHaveLookedForTheirs(t *testing.T) {
	b := newBed(t, "links", "routes")
	b.put("links", row{ID: "x"})
	b.put("routes", row{ID: "r", Of: "x"})
	g, woken := new(Group), 0
	links, err := Join(g, b.tables["links"].Untyped(), nil, func() { woken++ })
	if err != nil {
		t.Fatal(err)
	}
	on := []Dependency{b.onOf("links")}
	routes, err := Join(g, b.tables["routes"].Untyped(), on, func() {})
	if err != nil {
		t.Fatal(err)
	}
	order, ofRoutes := NewOrder(b.owner("links"), links, nil, nil, nil, nil), NewOrder(b.owner("routes"), routes, on, nil, nil, nil)
	x, r := b.task(pool.Delete, "links", "x"), b.task(pool.Delete, "routes", "r")
	b.want(order, x, Reason{}) // it is no orphan
	x.Item.Orphan = true
	until := b.now.Add(MaxOrderDelay)
	b.want(order, x, Reason{workqueue.Order, "a search for orphans of routes", until})

	ofRoutes.Note(r.Item)
	ofRoutes.NoteGate(r, Reason{Stage: workqueue.Limit})
	routes.SetSearched()
	if woken != 1 {
		t.Errorf("woken %d times, want once", woken)
	}
	b.want(order, x, Reason{workqueue.Order, "the delete of routes r", until})
	b.now = b.now.Add(time.Hour) // it does not count
	b.want(order, x, Reason{workqueue.Order, "the delete of routes r", b.now.Add(MaxOrderDelay)})
	routes.Leave()
	b.want(order, x, Reason{workqueue.Order, "the delete of routes r", b.now.Add(MaxOrderDelay)})
	if _, err := Join(g, b.tables["routes"].Untyped(), on, func() {}); err != nil {
		t.Fatal(err)
	}
	b.want(order, x, Reason{workqueue.Order, "a search for orphans of routes", b.now.Add(MaxOrderDelay)})
}

// A reconciler stopped with held deletes, and its table was dropped and made again.
func TestDeletesThatAreHeldEndWithTheirTable(t *testing.T) {
	b := newBed(t, "links", "routes")
	b.put("links", row{ID: "x"})
	b.put("routes", row{ID: "r", Of: "x"})
	g := new(Group)
	links, err := Join(g, b.tables["links"].Untyped(), nil, func() {})
	if err != nil {
		t.Fatal(err)
	}
	on := []Dependency{b.onOf("links")}
	routes, err := Join(g, b.tables["routes"].Untyped(), on, func() {})
	if err != nil {
		t.Fatal(err)
	}
	order, ofRoutes := NewOrder(b.owner("links"), links, nil, nil, nil, nil), NewOrder(b.owner("routes"), routes, on, nil, nil, nil)
	x, r := b.task(pool.Delete, "links", "x"), b.task(pool.Delete, "routes", "r")
	ofRoutes.Note(r.Item)
	ofRoutes.NoteGate(r, Reason{Stage: workqueue.Paused})
	routes.SetSearched()
	routes.Leave()
	if err := b.db.Drop(t.Context(), b.tables["routes"]); err != nil {
		t.Fatal(err)
	}
	b.want(order, x, Reason{workqueue.Order, "the delete of routes r", b.now.Add(MaxOrderDelay)})
	b.add(statedb.Schema[row]{Name: "routes", Primary: byID})
	again, err := Join(g, b.tables["routes"].Untyped(), on, func() {})
	if err != nil {
		t.Fatal(err)
	}
	again.SetSearched()
	b.want(order, x, Reason{})
}

// Deletes of routes are held, and which ones is not known at the moment.
func TestAnyDeleteWaitsWhileItIsNotKnownWhatIsHeld(t *testing.T) {
	b := newBed(t, "links", "routes")
	b.put("links", row{ID: "x"})
	g, woken := new(Group), 0
	links, err := Join(g, b.tables["links"].Untyped(), nil, func() { woken++ })
	if err != nil {
		t.Fatal(err)
	}
	on := []Dependency{b.onOf("links")}
	routes, err := Join(g, b.tables["routes"].Untyped(), on, func() {})
	if err != nil {
		t.Fatal(err)
	}
	order := NewOrder(b.owner("links"), links, nil, nil, nil, nil)
	x := b.task(pool.Delete, "links", "x")
	routes.SetSearched()
	b.want(order, x, Reason{})
	routes.SetUnsearched(false)
	b.want(order, x, Reason{}) // nothing is held
	routes.SetUnsearched(true)
	b.now = b.now.Add(time.Hour)
	b.want(order, x, Reason{workqueue.Order, "a search for orphans of routes", b.now.Add(MaxOrderDelay)})
	b.now = b.now.Add(time.Hour) // it does not count
	b.want(order, x, Reason{workqueue.Order, "a search for orphans of routes", b.now.Add(MaxOrderDelay)})
	routes.Leave()
	b.want(order, x, Reason{workqueue.Order, "a search for orphans of routes", b.now.Add(MaxOrderDelay)})
	routes.SetSearched()
	if woken != 1 {
		t.Errorf("woken %d times, want once", woken)
	}
	b.want(order, x, Reason{})
}

// A document of routes is refused since the start, so its rows, which depend on the link, are not known.
func TestAnyDeleteWaitsWhileRowsThatMayDependOnItAreMissing(t *testing.T) {
	b := newBed(t, "links", "routes")
	b.put("links", row{ID: "x"})
	g, woken := new(Group), 0
	links, err := Join(g, b.tables["links"].Untyped(), nil, func() { woken++ })
	if err != nil {
		t.Fatal(err)
	}
	routes, err := Join(g, b.tables["routes"].Untyped(), []Dependency{b.onOf("links")}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	replaces := func(_ store.ReadTxn, row *store.Entry) *store.Entry { return row }
	order := NewOrder(b.owner("links"), links, nil, nil, nil, replaces)
	routes.SetIncomplete(true)
	for _, kind := range []pool.Kind{pool.Delete, pool.Update} {
		x := b.task(kind, "links", "x")
		for range 2 { // waiting does not count
			b.want(order, x, Reason{workqueue.Order, "a search for orphans of routes, a source of which is incomplete", b.now.Add(MaxOrderDelay)})
			b.now = b.now.Add(time.Hour)
		}
	}
	routes.SetSearched()
	x := b.task(pool.Delete, "links", "x")
	if b.want(order, x, Reason{}); woken != 1 { // what was found missing later stays in force
		t.Errorf("woken %d times, want once", woken)
	}
	routes.SetUnsearched(false)
	b.want(order, x, Reason{workqueue.Order, "a search for orphans of routes, a source of which is incomplete", b.now.Add(MaxOrderDelay)})
	routes.on[0].Kept = true
	b.want(order, x, Reason{})
	routes.on[0].Kept = false
	if routes.SetIncomplete(false); woken != 2 {
		t.Errorf("woken %d times, want twice", woken)
	}
	for range 2 {
		b.want(order, x, Reason{workqueue.Order, "a search for orphans of routes", b.now.Add(MaxOrderDelay)})
		b.now = b.now.Add(time.Hour)
	}
	routes.SetSearched()
	b.want(order, x, Reason{})
	routes.SetUnsearched(false) // nothing was missing since
	b.want(order, x, Reason{})
}

func TestOrderHoldsNothingWithoutAGroup(t *testing.T) {
	b := newBed(t, "links")
	b.put("links", row{ID: "x"})
	o := NewOrder(b.owner("links"), nil, nil, nil, nil, nil)
	x := b.task(pool.Delete, "links", "x")
	o.Note(x.Item)
	b.want(o, x, Reason{})
}

// revision is how far m has to read to know a snapshot.
func (m *Member) revision(txn store.ReadTxn) store.Revision { return m.table.Revision(txn) }

// Rows to be deleted come and go, and may name a row twice. The oldest that names a row is found.
func TestDeleteSetFindsTheOldestThatNamesARow(t *testing.T) {
	b := newBed(t, "links", "routes")
	for i := range 30 {
		b.put("routes", row{ID: strconv.Itoa(i)})
	}
	links, routes := b.tables["links"].Untyped(), b.tables["routes"].Untyped()
	name := func(id string) (named namedRows, primary indexKey) {
		q := byID.Query(id).Untyped()
		primary = indexKey{links, q.Index.NameOrNone(), string(q.Key)}
		return namedRows{primary, q.Index}, primary
	}
	random := rand.New(rand.NewPCG(1, 2))
	set, order := newDeleteSet(routes), map[string][]string{} // by the name of a link, oldest first
	names := map[string][]string{}
	drop := func(key string) {
		for _, link := range names[key] {
			order[link] = slices.DeleteFunc(order[link], func(other string) bool { return other == key })
		}
		delete(names, key)
	}
	for range 20_000 {
		key := strconv.Itoa(random.IntN(30))
		if set.remove(key); random.IntN(2) == 0 {
			drop(key)
		} else {
			drop(key)
			var named []namedRows
			for range random.IntN(4) {
				link := strconv.Itoa(random.IntN(4))
				of, _ := name(link)
				named = append(named, of)
				if !slices.Contains(names[key], link) {
					names[key] = append(names[key], link)
					order[link] = append(order[link], key)
				}
			}
			entry := b.task(pool.Delete, "routes", key).Entry
			set.set(deletedRow{key, fmt.Sprint(key, names[key]), func() []namedRows { return slices.Clone(named) }, entry})
		}
		for link, keys := range order {
			_, primary := name(link)
			got := set.byName[primary].first("")
			if (got == nil) != (len(keys) == 0) || got != nil && routes.KeyText(got) != keys[0] {
				t.Fatalf("link %s: %v, want one of %v", link, got, keys)
			}
		}
	}
}

// Many rows to be deleted name the same row, and each others as well, such as routes that need an address of a wide network.
func BenchmarkDeletesThatNameTheSame(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			bed := newBed(b, "links", "routes")
			links := bed.tables["links"].Untyped()
			name := func(id string) namedRows {
				q := byID.Query(id).Untyped()
				return namedRows{indexKey{links, q.Index.NameOrNone(), string(q.Key)}, q.Index}
			}
			for b.Loop() {
				set := newDeleteSet(bed.tables["routes"].Untyped())
				for i := range n {
					key := strconv.Itoa(i)
					set.set(deletedRow{key, key, func() []namedRows { return []namedRows{name("wide"), name(key)} }, nil})
				}
				for i := range n {
					set.remove(strconv.Itoa(i * 7919 % n))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
		})
	}
}

func TestADeleteWaitsForWhatIsToBeThereBefore(t *testing.T) {
	b := newBed(t, "rows")
	b.put("rows", row{ID: "gone", Of: "x"}, row{ID: "p"}, row{ID: "e", State: "error"}, row{ID: "d", State: "done"})
	named := func(ids ...string) Dependency {
		d := b.onOf("rows")
		d.On = func(_ *store.Entry, yield func(store.Query) bool) {
			for _, id := range ids {
				if !yield(byID.Query(id).Untyped()) {
					return
				}
			}
		}
		return d
	}
	either := func(*store.Entry, func(Queries) bool) {}
	for name, c := range map[string]struct {
		ids      []string
		oneOf    bool
		orFailed bool
		want     string
	}{
		"a pending row":                   {[]string{"d", "p"}, false, false, "the update of rows p"},
		"a pending row, if one is enough": {[]string{"e", "p"}, true, false, "the update of rows p"},
		"one that is done is enough":      {[]string{"p", "d"}, true, false, ""},
		"one that failed":                 {[]string{"e", "d"}, false, false, ""},
		"or one that failed":              {[]string{"e", "d"}, false, true, "the update of rows e, which is in error: unexpected EOF"},
	} {
		d := named(c.ids...)
		if d.OrFailed = c.orFailed; c.oneOf {
			d.OneOf = either
		}
		order, want := NewOrder(b.owner("rows"), nil, nil, []Dependency{d}, nil, nil), Reason{}
		if c.want != "" {
			want = Reason{workqueue.Order, c.want, b.now.Add(pendingRetry)}
		}
		t.Log(name)
		b.want(order, b.task(pool.Delete, "rows", "gone"), want)
	}
}

// Rows that were applied, and in error long before a delete was requested, are not there to replace what it removes.
func TestADeleteDoesNotWaitForRowsThatWereAppliedAndHaveLongBeenInError(t *testing.T) {
	b := newBed(t, "rows")
	b.put("rows", row{ID: "early", Of: "e"}, row{ID: "late", Of: "e"}, row{ID: "e", State: "error"}, row{ID: "f", State: "error"}, row{ID: "p"},
		row{ID: "x", State: "error"})
	var ids []string
	errApplied := fmt.Errorf("a neighbor has it: %w", pool.ErrApplied)
	failed := map[string]time.Time{"e": time.Unix(500, 0), "f": time.Unix(550, 0)}
	d := b.onOf("rows")
	d.OrFailed = true
	d.Status = func(e *store.Entry) status.Status {
		if at, failed := failed[rowOf(e).ID]; failed {
			return status.Status{}.After(errApplied, at)
		}
		return statusOf(e)
	}
	d.On = func(_ *store.Entry, yield func(store.Query) bool) {
		for _, id := range ids {
			if !yield(byID.Query(id).Untyped()) {
				return
			}
		}
	}
	for _, c := range []struct {
		ids  []string
		at   int64
		want string
	}{
		{[]string{"e"}, 400, "the update of rows e, which is in error: a neighbor has it: it was applied"},
		{[]string{"e"}, 510, "the update of rows e, which is in error: a neighbor has it: it was applied"},
		{[]string{"e"}, 511, ""},
		{[]string{"e", "x"}, 511, "the update of rows x, which is in error: unexpected EOF"}, // it may be tried again
		{[]string{"e", "f"}, 511, "the update of rows f, which is in error: a neighbor has it: it was applied"},
		{[]string{"f", "e"}, 511, "the update of rows f, which is in error: a neighbor has it: it was applied"},
		{[]string{"f", "e"}, 561, ""},
		{[]string{"e", "p", "f"}, 561, "the update of rows p"},
	} {
		ids = c.ids
		order := NewOrder(b.owner("rows"), nil, nil, []Dependency{d}, nil, nil)
		for _, first := range []bool{true, false} { // another delete may have asked before
			gone := b.task(pool.Delete, "rows", "late")
			if gone.Item.DeletedAt = time.Unix(c.at, 0); first {
				other := b.task(pool.Delete, "rows", "early")
				other.Item.DeletedAt = time.Unix(300, 0)
				if _, held := b.holds(order, other); !held {
					t.Errorf("%v: a delete before all of them does not wait", c.ids)
				}
			}
			if why, _ := b.holds(order, gone); why.Text != c.want {
				t.Errorf("%v, deleted at %d: waits for %q, want %q", c.ids, c.at, why.Text, c.want)
			}
		}
	}
}
