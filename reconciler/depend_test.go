package reconciler_test

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// chain is links, addresses and routes, each with a reconciler. The part of an
// id before a slash is the device, on whose link addresses and routes depend;
// routes depend on its addresses too.
type chain struct {
	replaced    bool // addresses are deleted after others of their devices are there
	deletesOnly bool // routes are deleted before addresses, but their updates do not wait for them
	last        bool // deletes of routes come last: see Params.DeletesLast
	remade      bool // links that are there are made anew when their rows change
	t           *testing.T
	db          *statedb.DB
	group       *reconciler.Group
	notDone     *statedb.RWTable[reconciler.NotDone]
	tables      map[string]*statedb.RWTable[row]
	rs          map[string]*reconciler.Reconciler[row]
	stops       map[string]func()
	panics      string // the id of which nobody knows what it depends on

	mu      sync.Mutex
	commits int // of rows
	log     []string
	is      map[string]bool // by table and id
	broken  map[string]bool // what fails
	faults  []string
	delay   func() time.Duration
}

func device(r row) string {
	name, _, _ := strings.Cut(r.ID, "/")
	return name
}

var byDevice = statedb.NewIndex("device", device)

var chainTables = []string{"links", "addresses", "routes"}

func chained(t *testing.T, test func(t *testing.T, c *chain)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &chain{
			t: t, db: statedb.New(), group: &reconciler.Group{}, tables: map[string]*statedb.RWTable[row]{},
			rs: map[string]*reconciler.Reconciler[row]{}, stops: map[string]func(){},
			is: map[string]bool{}, broken: map[string]bool{}, delay: func() time.Duration { return 0 },
		}
		c.notDone = must(statedb.NewTable(c.db, reconciler.NotDoneSchema()))
		for _, name := range chainTables {
			schema := rowSchema()
			schema.Name, schema.Secondary = name, append(schema.Secondary, byDevice)
			c.tables[name] = must(statedb.NewTable(c.db, schema))
		}
		for _, name := range []string{"routes", "links", "addresses"} {
			c.start(name)
		}
		test(t, c)
		for _, name := range chainTables {
			c.stop(name)
		}
		if len(c.faults) > 0 {
			t.Errorf("out of order: %q", c.faults)
		}
	})
}

func (c *chain) on(name string, query func(string) statedb.Query[row]) reconciler.Dependency[row] {
	return reconciler.DependsOn(statedb.ReadOnly(c.tables[name]), row.GetStatus, func(r row) iter.Seq[statedb.Query[row]] {
		if c.panicking(r.ID) {
			panic("out of cheese")
		}
		return slices.Values([]statedb.Query[row]{query(device(r))})
	})
}

func (c *chain) params(name string) reconciler.Params[row] {
	p := reconciler.Params[row]{
		DB: c.db, Table: c.tables[name], NotDone: c.notDone, Group: c.group, Target: &chainTarget{c, name},
		Config: reconciler.Config{FullInterval: -1, Workers: 2},
	}
	if name != "links" {
		p.DependsOn = append(p.DependsOn, c.on("links", byID.Query))
	}
	if name == "routes" && c.last {
		p.DeletesLast, p.Config.DeleteLimit.Off = true, true
		p.RemovedFirst = func(_ statedb.ReadTxn, was row) iter.Seq[statedb.Query[row]] {
			return slices.Values([]statedb.Query[row]{byID.Query(was.ID + "'"), byID.Query(was.ID + "!")})
		}
	}
	switch {
	case name == "links" && c.remade:
		p.Replaces = func(_ statedb.ReadTxn, r row) (row, bool) { return r, c.there("links " + r.ID) }
	case name == "routes" && c.deletesOnly:
		p.DeletedBefore = append(p.DeletedBefore, c.on("addresses", byDevice.Query))
	case name == "addresses" && c.replaced:
		p.DeletedAfter = append(p.DeletedAfter, c.on("addresses", byDevice.Query))
	case name == "routes":
		p.DependsOn = append(p.DependsOn, c.on("addresses", byDevice.Query))
	}
	return p
}

func (c *chain) start(name string) {
	c.t.Helper()
	r, err := reconciler.New(c.params(name))
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	c.rs[name] = r
	c.stops[name] = func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
	}
	synctest.Wait()
}

func (c *chain) stop(name string) {
	if stop := c.stops[name]; stop != nil {
		stop()
		c.stops[name] = nil
	}
}

// commit writes ids like "links eth0", in one transaction; those that begin with
// a minus are deleted.
func (c *chain) commit(ids ...string) {
	c.t.Helper()
	err := c.db.Update(c.t.Context(), func(txn *statedb.WriteTxn) error {
		for _, id := range ids {
			name, id, _ := strings.Cut(id, " ")
			var err error
			if table, gone := strings.CutPrefix(name, "-"); gone {
				_, _, err = c.tables[table].Delete(txn, row{ID: id})
			} else {
				_, _, err = c.tables[name].Insert(txn, row{ID: id, Want: c.next()})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, c.tables["links"], c.tables["addresses"], c.tables["routes"])
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *chain) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits++
	return c.commits
}

func (c *chain) there(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.is[name]
}

// excuse forgets what was out of order, where that was meant.
func (c *chain) excuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

func (c *chain) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = nil
}

func (c *chain) panic(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.panics = id
}

func (c *chain) panicking(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.panics == id
}

func (c *chain) breaks(id string, broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken[id] = broken
}

// wantSet checks the operations of reconcilers that know nothing of each other.
func (c *chain) wantSet(want ...string) {
	c.t.Helper()
	synctest.Wait()
	c.mu.Lock()
	slices.Sort(c.log)
	c.mu.Unlock()
	c.wantLog(want...)
}

func (c *chain) wantLog(want ...string) {
	c.t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(append([]string{}, want...), append([]string{}, c.log...)); diff != "" {
		c.t.Errorf("operations (-want +got):\n%s", diff)
	}
	c.log = nil
}

func (c *chain) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wantWaits checks what a row waits for according to the not-done table.
func (c *chain) wantWaits(name, key, want string) {
	c.t.Helper()
	n, _, _ := c.notDone.Get(c.db.ReadTxn(), reconciler.NotDoneByKey.Query(reconciler.NotDoneKey{Reconciler: name, Key: key}))
	if n.WaitsFor != want {
		c.t.Errorf("%s %s waits for %q, expected %q", name, key, n.WaitsFor, want)
	}
}

// chainTarget is the target of one table of a chain. It finds out what is done
// out of order.
type chainTarget struct {
	*chain
	table string
}

func (g *chainTarget) Init(context.Context) error { return nil }

func (g *chainTarget) do(op, id string) error {
	take(g.delay())
	g.mu.Lock()
	defer g.mu.Unlock()
	name := g.table + " " + id
	if op == "delete" {
		op = "-"
	} else {
		op = ""
	}
	g.log = append(g.log, op+name)
	if g.broken[name] && strings.HasSuffix(name, "'") {
		return fs.ErrExist
	}
	if g.broken[name] && strings.HasSuffix(name, "?") {
		return fmt.Errorf("%w: %w", errBoom, reconciler.ErrApplied)
	}
	if g.broken[name] {
		return errBoom
	}
	g.is[name] = op == ""
	return nil
}

func (g *chainTarget) Update(_ context.Context, txn statedb.ReadTxn, r row) (reconciler.Result, error) {
	for _, dep := range chainTables[:slices.Index(chainTables, g.table)] {
		for other := range g.tables[dep].List(txn, byDevice.Query(device(r))) {
			if waits := !g.deletesOnly || dep != "addresses"; waits && other.Status.Kind() != reconciler.Done {
				g.fault("%s %s before %s %s", g.table, r.ID, dep, other.ID)
			}
		}
	}
	return reconciler.Result{}, g.do("update", r.ID)
}

func (g *chainTarget) Delete(_ context.Context, txn statedb.ReadTxn, r row) error {
	g.mu.Lock()
	for _, dep := range chainTables[slices.Index(chainTables, g.table)+1:] {
		for name, there := range g.is {
			table, id, _ := strings.Cut(name, " ")
			_, _, wanted := g.tables[dep].Get(txn, byID.Query(id))
			if there && table == dep && device(row{ID: id}) == device(r) && (g.table == "links" || dep == "routes") && !wanted {
				g.faults = append(g.faults, fmt.Sprintf("delete of %s %s before that of %s", g.table, r.ID, name))
			}
		}
	}
	g.mu.Unlock()
	return g.do("delete", r.ID)
}

func (g *chainTarget) fault(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = append(g.faults, fmt.Sprintf(format, args...))
}

func (g *chainTarget) Prune(context.Context, statedb.ReadTxn, iter.Seq2[row, statedb.Revision]) (int, error) {
	return 0, nil
}
