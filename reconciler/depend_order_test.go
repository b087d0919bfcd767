package reconciler_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
