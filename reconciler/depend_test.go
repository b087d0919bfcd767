package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
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
	t       *testing.T
	db      *statedb.DB
	group   *reconciler.Group
	notDone *statedb.RWTable[reconciler.NotDone]
	tables  map[string]*statedb.RWTable[row]
	rs      map[string]*reconciler.Reconciler[row]
	stops   map[string]func()
	panics  string // the id of which nobody knows what it depends on

	mu     sync.Mutex
	log    []string
	is     map[string]bool // by table and id
	broken map[string]bool // what fails
	faults []string
	delay  func() time.Duration
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
	if name == "routes" {
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
	return len(c.log) + 1
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

// wantWaits checks what the not-done table says of a row.
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
	if g.broken[name] {
		return errBoom
	}
	g.is[name] = op == ""
	return nil
}

func (g *chainTarget) Update(_ context.Context, txn statedb.ReadTxn, r row) (reconciler.Result, error) {
	for _, dep := range chainTables[:slices.Index(chainTables, g.table)] {
		for other := range g.tables[dep].List(txn, byDevice.Query(device(r))) {
			if other.Status.Kind() != reconciler.Done {
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

func TestAChainIsMadeInOrderAndUnmadeInReverse(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.commit("routes eth0/r", "addresses eth0/1", "links eth0")
		c.wantLog("links eth0", "addresses eth0/1", "routes eth0/r")
		c.commit("-links eth0", "-addresses eth0/1", "-routes eth0/r")
		c.wantLog("-routes eth0/r", "-addresses eth0/1", "-links eth0")
		c.pass(time.Hour)
		c.wantLog()
	})
}

func TestRowsThatAreNotThereBlockNothing(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.commit("routes lo/r")
		c.wantLog("routes lo/r")
		c.commit("addresses lo/1")
		c.wantLog("addresses lo/1")
		c.commit("-addresses lo/1") // the route is wanted still
		c.wantLog("-addresses lo/1")
	})
}

func TestAFailingRowHoldsThoseThatDependOnItAndNobodyElse(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.breaks("addresses eth0/1", true)
		c.commit("routes eth0/r", "addresses eth0/1", "links eth0", "routes eth1/r", "addresses eth1/1", "links eth1")
		c.pass(time.Second)
		c.wantWaits("routes", "eth0/r", "dependency: addresses eth0/1, which is in error: boom")
		if c.there("routes eth0/r") || !c.there("routes eth1/r") {
			t.Error("the route of eth0 is there, or that of eth1 is not")
		}
		c.rs["routes"].FullPass() // does not hang
		c.pass(time.Second)
		c.commit("links eth0")
		c.commit("routes eth0/r") // changes while it waits
		c.pass(time.Second)
		c.breaks("addresses eth0/1", false)
		c.forget()
		c.pass(time.Minute)
		c.wantLog("addresses eth0/1", "routes eth0/r")
		c.wantWaits("routes", "eth0/r", "")
		c.pass(time.Hour)
		c.wantLog()
	})
}

func TestARowThatIsDeletedReleasesThoseThatWaitForIt(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.breaks("links eth0", true)
		c.commit("links eth0", "addresses eth0/1")
		c.wantLog("links eth0")
		c.breaks("links eth0", false)
		c.commit("-links eth0")
		c.wantSet("-links eth0", "addresses eth0/1")
	})
}

func TestADeleteWaitsForAFailingOneAndSaysSoButNotForEver(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.commit("links eth0", "addresses eth0/1")
		c.wantLog("links eth0", "addresses eth0/1")
		c.breaks("addresses eth0/1", true)
		c.commit("-links eth0", "-addresses eth0/1")
		c.pass(4 * time.Minute)
		if !c.there("links eth0") {
			t.Error("the link was deleted before its address")
		}
		c.wantWaits("links", "eth0", "order: the delete of addresses eth0/1")
		c.pass(2 * time.Minute)
		if c.there("links eth0") {
			t.Error("the delete of the link waits for ever")
		}
		c.breaks("addresses eth0/1", false)
		c.excuse()
		c.pass(10 * time.Minute)
	})
}

func TestADeleteThatHasWaitedRunsAtOnceWhenTheOtherOneSucceeds(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.commit("links eth0", "addresses eth0/1")
		c.pass(0)
		c.breaks("addresses eth0/1", true)
		c.commit("-links eth0", "-addresses eth0/1")
		c.pass(time.Second)
		c.breaks("addresses eth0/1", false)
		c.commit("addresses eth0/1") // it is wanted again
		c.pass(0)
		if c.there("links eth0") {
			t.Error("the delete of the link waits for a row that is there again")
		}
	})
}

func TestADeleteDoesNotWaitForAReconcilerThatHasEnded(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.commit("links eth0", "addresses eth0/1")
		c.pass(0)
		c.breaks("addresses eth0/1", true)
		c.commit("-links eth0", "-addresses eth0/1")
		c.pass(time.Second)
		c.excuse()
		c.stop("addresses")
		c.pass(0)
		if c.there("links eth0") {
			t.Error("the delete of the link waits for a reconciler that has ended")
		}
		c.excuse()
	})
}

func TestRowsWaitForATableThatIsNotInitialized(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		var source *statedb.Source
		err := c.db.Update(c.t.Context(), func(txn *statedb.WriteTxn) (err error) {
			source, err = c.tables["links"].RegisterSource(txn, "late")
			return err
		}, c.tables["links"])
		if err != nil {
			t.Fatal(err)
		}
		c.commit("addresses eth0/1")
		c.pass(time.Second)
		c.wantLog()
		c.wantWaits("addresses", "eth0/1", "dependency: table links, which is not initialized")
		if err := c.db.Update(c.t.Context(), source.Initialized, c.tables["links"]); err != nil {
			t.Fatal(err)
		}
		c.wantLog("addresses eth0/1")
	})
}

func TestAPanicOfADependencyHoldsItsRowAlone(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.panic("eth0/1")
		c.commit("addresses eth0/1", "addresses eth0/2")
		c.pass(time.Second)
		c.wantLog("addresses eth0/2")
		c.wantWaits("addresses", "eth0/1", "dependency: rows of table links that are not known: panic: out of cheese")
		c.panic("")
		c.commit("links eth1")
		c.wantSet("addresses eth0/1", "links eth1")
	})
}

func TestACircleOfDependenciesIsRefusedByName(t *testing.T) {
	chained(t, func(t *testing.T, c *chain) {
		p := c.params("links")
		p.DependsOn = append(p.DependsOn, c.on("routes", byDevice.Query))
		_, err := reconciler.New(p)
		if !errors.Is(err, reconciler.ErrCycle) || !strings.Contains(err.Error(), "links -> routes -> links") {
			t.Errorf("error is %v, which names no circle", err)
		}
		p.Group, p.DependsOn = nil, []reconciler.Dependency[row]{c.on("links", byDevice.Query)}
		if _, err = reconciler.New(p); err != nil {
			t.Errorf("rows that depend on others of their table are refused: %v", err)
		}
		p.DependsOn = []reconciler.Dependency[row]{{}}
		if _, err = reconciler.New(p); err == nil {
			t.Error("an empty dependency is accepted")
		}
	})
}

// TestAChainSettlesWhateverTheOrder shuffles what is written, fails and stops,
// and holds every operation to the order.
func TestAChainSettlesWhateverTheOrder(t *testing.T) {
	for seed := range uint64(40) {
		random, chance := rand.New(rand.NewPCG(seed, 0)), newChance(seed)
		chained(t, func(t *testing.T, c *chain) {
			c.delay = func() time.Duration { return time.Duration(chance.n(3)) * time.Millisecond }
			for range 30 {
				var ids []string
				dev := fmt.Sprint("eth", random.IntN(2))
				for _, id := range []string{"links " + dev, "addresses " + dev + "/1", "addresses " + dev + "/2", "routes " + dev + "/r"} {
					switch random.IntN(4) {
					case 0, 1:
						ids = append(ids, id)
					case 2:
						ids = append(ids, "-"+id)
					}
				}
				random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
				c.commit(ids...)
				c.pass(time.Duration(random.IntN(10)) * time.Millisecond)
				if name := chainTables[random.IntN(3)]; random.IntN(10) == 0 {
					c.stop(name)
					c.start(name)
				}
			}
			c.excuse() // what is wanted again or was stopped may be out of order
			c.pass(time.Hour)
			for name, table := range c.tables {
				for r := range table.All(c.db.ReadTxn()) {
					if r.Status.Kind() != reconciler.Done || !c.there(name+" "+r.ID) {
						t.Errorf("seed %d: %s %s is %v", seed, name, r.ID, r.Status)
					}
				}
			}
			if n := c.notDone.Len(c.db.ReadTxn()); n > 0 {
				t.Errorf("seed %d: %d rows are not done", seed, n)
			}
		})
	}
}
