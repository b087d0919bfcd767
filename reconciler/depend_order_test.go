package reconciler_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

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

func TestRowsThatAreDeletedBeforeOthersDoNotWaitForThemOtherwise(t *testing.T) {
	chained(t, func(t *testing.T, c *chain) {
		c.stop("routes")
		c.deletesOnly = true
		c.start("routes")
		c.breaks("addresses eth0/1", true)
		c.commit("routes eth0/r", "addresses eth0/1", "links eth0")
		c.pass(time.Minute)
		if !c.there("routes eth0/r") || c.there("addresses eth0/1") {
			t.Error("the route has waited for the address")
		}
		c.breaks("addresses eth0/1", false)
		c.pass(time.Minute)
		c.forget()
		c.commit("-addresses eth0/1", "-routes eth0/r")
		c.wantLog("-routes eth0/r", "-addresses eth0/1")
	})
}

// replacing makes the deletes of addresses wait for others of their links, of which there is one.
func (c *chain) replacing() {
	c.t.Helper()
	c.stop("addresses")
	c.replaced = true
	c.start("addresses")
	c.commit("links eth0", "addresses eth0/1")
	c.pass(time.Second)
}

func TestADeleteWaitsForRowsThatReplaceItsOwn(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.replacing()
		c.forget()
		c.commit("-addresses eth0/1", "addresses eth0/2")
		c.pass(time.Second)
		c.wantLog("addresses eth0/2", "-addresses eth0/1")
		// One that fails does not keep the old one.
		c.breaks("addresses eth0/3", true)
		c.commit("-addresses eth0/2", "addresses eth0/3")
		c.pass(time.Second)
		if c.there("addresses eth0/2") {
			c.t.Error("the old one waits for one that fails")
		}
		// One that is paused, or that waits, does, however long.
		c.forget()
		c.commit("addresses eth0/4")
		c.pass(time.Second)
		if err := c.rs["addresses"].Pause(c.t.Context(), reconciler.Selector[row]{Keys: []string{"eth0/5"}}, time.Time{}); err != nil {
			c.t.Error(err)
		}
		c.commit("-addresses eth0/4", "-links eth0", "addresses eth0/5")
		written := func() statedb.Revision {
			of := reconciler.NotDoneKey{Reconciler: "addresses", Key: "eth0/4"}
			_, revision, _ := c.notDone.Get(c.db.ReadTxn(), reconciler.NotDoneByKey.Query(of))
			return revision
		}
		c.pass(time.Minute)
		before := written()
		c.pass(time.Hour)
		if before == 0 || written() != before {
			c.t.Error("a delete that waits is written to the not-done table again and again")
		}
		if !c.there("addresses eth0/4") {
			c.t.Error("the old one does not wait for one that is paused")
		}
		if !c.there("links eth0") {
			c.t.Error("the link does not wait for the address that does")
		}
		if err := c.rs["addresses"].Resume(c.t.Context(), reconciler.Selector[row]{}); err != nil {
			c.t.Error(err)
		}
		c.pass(time.Minute)
		if c.there("addresses eth0/4") || c.there("links eth0") {
			c.t.Error("the old ones stay for ever")
		}
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

// manyRoutes commits a link, its address and n routes, and returns what deletes them.
func (c *chain) manyRoutes(n int) (unmake []string) {
	all := []string{"links eth0", "addresses eth0/1"}
	for i := range n {
		all = append(all, fmt.Sprintf("routes eth0/%d", i))
	}
	c.commit(all...)
	c.pass(2 * time.Minute) // longer than the window of the limit
	for _, name := range all {
		unmake = append(unmake, "-"+name)
	}
	return unmake
}

// wantHeldRoutes checks that nothing was deleted.
func (c *chain) wantHeldRoutes(n int) {
	c.t.Helper()
	for _, name := range []string{"links eth0", "addresses eth0/1", "routes eth0/0", fmt.Sprintf("routes eth0/%d", n-1)} {
		if !c.there(name) {
			c.t.Errorf("%s was deleted", name)
		}
	}
}

// What a row depends on would take it along: a limit of deletes holds both.
func TestADeleteWaitsForOnesThatNeedAnApprovalHoweverLongThatTakes(t *testing.T) {
	chained(t, func(t *testing.T, c *chain) {
		const n = 20
		c.commit(c.manyRoutes(n)...)
		c.pass(time.Hour)
		c.wantHeldRoutes(n)
		c.wantWaits("links", "eth0", "order: the delete of routes eth0/0")
		plan, err := c.rs["routes"].Plan(t.Context())
		if err != nil || plan.Deletes != n {
			t.Fatalf("the plan has %d deletes, want %d (%v)", plan.Deletes, n, err)
		}
		if err := c.rs["routes"].Approve(t.Context(), plan.ID); err != nil {
			t.Fatal(err)
		}
		c.pass(time.Minute)
		if c.there("links eth0") || c.there("addresses eth0/1") || c.there("routes eth0/0") {
			t.Error("not all was deleted after the approval")
		}
	})
}

func TestAnUpdateThatReplacesARowWaitsForDeletesThatNeedAnApproval(t *testing.T) {
	chained(t, func(t *testing.T, c *chain) {
		c.stop("links")
		c.remade = true
		c.start("links")
		c.commit("links eth1")
		const n = 20
		unmake := slices.DeleteFunc(c.manyRoutes(n), func(id string) bool { return !strings.HasPrefix(id, "-routes") })
		c.pass(time.Second)
		c.forget()
		c.commit(append(unmake, "links eth0", "links eth1")...)
		c.pass(time.Hour)
		c.wantWaits("links", "eth0", "order: the delete of routes eth0/0")
		c.wantLog("links eth1")
		plan, err := c.rs["routes"].Plan(t.Context())
		if err == nil {
			err = c.rs["routes"].Approve(t.Context(), plan.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.pass(time.Second)
		c.mu.Lock()
		if last := c.log[len(c.log)-1]; len(c.log) != n+1 || last != "links eth0" {
			t.Errorf("%d operations, the last of which is %s, want %d with that of links eth0", len(c.log), last, n+1)
		}
		c.mu.Unlock()
	})
}

// The delete of the old address waits for the new one, which waits for the link.
func TestAnUpdateThatReplacesARowDoesNotWaitForLongInACircle(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.stop("links")
		c.stop("addresses")
		c.remade, c.replaced = true, true
		c.start("links")
		c.start("addresses")
		c.commit("links eth0", "addresses eth0/1")
		c.pass(time.Second)
		c.forget()
		c.commit("links eth0", "-addresses eth0/1", "addresses eth0/2")
		c.pass(4 * time.Second)
		c.wantLog()
		c.wantWaits("links", "eth0", "order: the delete of addresses eth0/1")
		c.pass(2 * time.Second)
		c.wantLog("links eth0", "addresses eth0/2", "-addresses eth0/1")
	})
}

func TestADeleteWaitsForAPausedOneHoweverLongThatTakes(t *testing.T) {
	chained(t, func(t *testing.T, c *chain) {
		unmake := c.manyRoutes(1)
		if err := c.rs["routes"].Pause(t.Context(), reconciler.Selector[row]{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		c.commit(unmake...)
		c.pass(time.Hour)
		c.wantHeldRoutes(1)
		if err := c.rs["routes"].Resume(t.Context(), reconciler.Selector[row]{}); err != nil {
			t.Fatal(err)
		}
		c.pass(time.Minute)
		if c.there("links eth0") || c.there("routes eth0/0") {
			t.Error("not all was deleted when the pause had ended")
		}
	})
}

func TestADeleteThatFailsAfterAnApprovalIsNotWaitedForForEver(t *testing.T) {
	chained(t, func(t *testing.T, c *chain) {
		c.commit(c.manyRoutes(20)...)
		c.pass(time.Hour)
		c.breaks("routes eth0/7", true)
		plan, err := c.rs["routes"].Plan(t.Context())
		if err == nil {
			err = c.rs["routes"].Approve(t.Context(), plan.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.pass(4 * time.Minute)
		if !c.there("links eth0") {
			t.Error("the link was deleted before its routes")
		}
		c.pass(30 * time.Minute)
		if c.there("links eth0") {
			t.Error("the delete of the link waits for ever")
		}
		c.breaks("routes eth0/7", false)
		c.excuse()
		c.pass(10 * time.Minute)
	})
}

// An agent that stops does not stop all of its reconcilers at the same moment.
func TestADeleteThatNeedsAnApprovalIsWaitedForWhenItsReconcilerStops(t *testing.T) {
	chained(t, func(t *testing.T, c *chain) {
		const n = 20
		c.commit(c.manyRoutes(n)...)
		c.pass(time.Second)
		c.stop("routes")
		c.pass(time.Hour)
		c.stop("addresses")
		c.pass(time.Hour)
		c.wantHeldRoutes(n)
		c.start("routes") // it finds no orphans, because the target of the test does not look for them
		c.start("addresses")
		c.pass(time.Minute)
		if c.there("links eth0") {
			t.Error("the delete of the link waits for reconcilers that were replaced")
		}
		c.excuse()
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

// A reconciler that ends is often the first of all of them in a process that stops.
func TestADeleteWaitsForAReconcilerThatHasEndedForFiveMinutes(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.commit("links eth0", "addresses eth0/1")
		c.pass(0)
		c.breaks("addresses eth0/1", true)
		c.commit("-links eth0", "-addresses eth0/1")
		c.pass(time.Second)
		c.excuse()
		c.stop("addresses")
		c.pass(4 * time.Minute)
		if !c.there("links eth0") {
			t.Error("the delete of the link takes the end of a reconciler for that of its rows")
		}
		c.pass(time.Minute)
		c.commit("links eth1", "addresses eth1/1")
		c.commit("-links eth1", "-addresses eth1/1")
		c.pass(0)
		if c.there("links eth0") || c.there("links eth1") {
			t.Error("the delete of a link waits for a reconciler that has ended long ago")
		}
		c.excuse()
	})
}

// Its delete would have waited for a row that is paused, for ever.
func TestADeleteDoesNotWaitForEverForAReconcilerThatHasEnded(t *testing.T) {
	chained(t, func(_ *testing.T, c *chain) {
		c.replacing()
		if err := c.rs["addresses"].Pause(c.t.Context(), reconciler.Selector[row]{Keys: []string{"eth0/2"}}, time.Time{}); err != nil {
			c.t.Error(err)
		}
		c.commit("-links eth0", "-addresses eth0/1", "addresses eth0/2")
		c.pass(time.Hour)
		c.excuse()
		c.stop("addresses")
		c.pass(4 * time.Minute)
		if !c.there("links eth0") {
			c.t.Error("the delete of the link takes the end of a reconciler for that of its rows")
		}
		c.pass(6 * time.Minute)
		if c.there("links eth0") {
			c.t.Error("the delete of the link waits for ever")
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
		c.wantWaits("addresses", "eth0/1", "dependency: unknown rows of table links: panic: out of cheese")
		c.panic("")
		c.commit("links eth1")
		c.wantSet("addresses eth0/1", "links eth1")
	})
}

func TestACycleOfDependenciesIsRefusedByName(t *testing.T) {
	chained(t, func(t *testing.T, c *chain) {
		p := c.params("links")
		p.DependsOn = append(p.DependsOn, c.on("routes", byDevice.Query))
		_, err := reconciler.New(p)
		if !errors.Is(err, reconciler.ErrCycle) || !strings.Contains(err.Error(), "links -> routes -> links") {
			t.Errorf("error is %v, which names no cycle", err)
		}
		p.Group, p.DependsOn = nil, []reconciler.Dependency[row]{c.on("links", byDevice.Query)}
		if _, err = reconciler.New(p); err != nil {
			t.Errorf("rows that depend on others of their own table are refused: %v", err)
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
