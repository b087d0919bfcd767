package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// TestDriftSimulation lets writers, vandals and a slow feed of what is observed
// loose on a reconciler that makes no full pass. When they have ended, and the
// feed has told the last of it, the target is what the table says.
func TestDriftSimulation(t *testing.T) {
	for seed := uint64(1); seed <= 200 && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			s := newDriftSimulation(t, seed)
			s.run()
			if t.Failed() {
				t.Logf("with seed %d", seed)
			}
		})
	}
}

type driftSimulation struct {
	*watchful
	chance *chance
	random *rand.Rand
	news   chan string // ids that the feed has still to look at
}

func newDriftSimulation(t *testing.T, seed uint64) *driftSimulation {
	w := newWorld(t)
	s := &driftSimulation{
		watchful: withSightings(w), chance: newChance(seed), random: rand.New(rand.NewPCG(seed, 0)), news: make(chan string, 10_000),
	}
	w.seed = seed
	w.config.Workers = 1 + s.random.IntN(4)
	w.config.Drift.Settle = time.Duration(1+s.random.IntN(300)) * time.Millisecond
	w.config.MaxBackoff = time.Second
	s.target.will(s.act)
	return s
}

// act tells the feed of what an operation does, some of which fail.
func (s *driftSimulation) act(_ context.Context, c call) (reconciler.Result, error) {
	take(time.Duration(s.chance.n(20)) * time.Millisecond)
	defer func() { s.news <- c.id }()
	switch s.chance.n(10) {
	case 0:
		return reconciler.Result{}, errBoom
	case 1:
		return reconciler.Result{Again: time.Duration(1+s.chance.n(500)) * time.Millisecond}, nil
	}
	return reconciler.Result{}, nil
}

// feed looks at what has changed some time ago, as it is now.
func (s *driftSimulation) feed(slowest int) {
	for id := range s.news {
		take(time.Duration(1+s.chance.n(slowest)) * time.Millisecond)
		if is, there := s.target.state()[id]; there {
			insert(s.t, s.db, s.seen, sighting{id, is})
		} else {
			remove(s.t, s.db, s.seen, sighting{ID: id})
		}
	}
}

func (s *driftSimulation) run() {
	var feed sync.WaitGroup
	slowest := 1 + s.random.IntN(50)
	feed.Go(func() { s.feed(slowest) })
	s.launch()
	for range 60 {
		take(time.Duration(1+s.random.IntN(100)) * time.Millisecond)
		id := someKey(s.random)
		switch s.random.IntN(6) {
		case 0:
			s.erase(id)
		case 1, 2:
			s.write(row{ID: id, Want: s.random.IntN(3)})
		case 3:
			s.target.vanish(id)
			s.news <- id
		case 4:
			if _, there := s.target.state()[id]; there {
				s.target.corrupt(id, s.random.IntN(3))
				s.news <- id
			}
		case 5:
			if s.random.IntN(5) == 0 {
				s.stop()
				s.launch()
			}
		}
	}
	s.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
		defer func() { s.news <- c.id }()
		return reconciler.Result{}, nil
	})
	s.pass(time.Minute)
	s.wantConverged()
	s.target.log()
	s.pass(time.Hour)
	s.wantLog()
	s.stop()
	close(s.news)
	feed.Wait()
}

// TestDriftIsFoundHoweverManyRowsAnObservedRowTellsOf compares several rows with
// one, whose rows change.
func TestDriftIsFoundHoweverManyRowsAnObservedRowTellsOf(t *testing.T) {
	var seen *statedb.RWTable[child]
	prepared(t, func(w *world) {
		seen = must(statedb.NewTable(w.db, statedb.Schema[child]{Name: "switches", Primary: childByID}))
		insert(t, w.db, seen, child{"switch", "a b", 1})
		w.params = func(p *reconciler.Params[row]) {
			p.Observed = reconciler.Observes(statedb.ReadOnly(seen), func(_ statedb.ReadTxn, c child) iter.Seq[statedb.Query[row]] {
				return byIDs(strings.Fields(c.Owners)...)
			}, func(txn statedb.ReadTxn, want row) []reconciler.Change {
				for c := range seen.All(txn) {
					if slices.Contains(strings.Fields(c.Owners), want.ID) && c.Number == want.Want {
						return nil
					}
				}
				return []reconciler.Change{{Field: "switch", Is: "off", Want: fmt.Sprint(want.Want)}}
			})
		}
		w.write(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
	}, func(t *testing.T, w *world) {
		w.pass(time.Minute)
		w.target.log()
		insert(t, w.db, seen, child{"switch", "b", 1}) // it tells nothing of a any more
		synctest.Wait()
		w.wantLog("update a=1")
		insert(t, w.db, seen, child{"switch", "a b", 1})
		w.pass(time.Minute)
		w.wantLog()
		remove(t, w.db, seen, child{ID: "switch"})
		synctest.Wait()
		w.wantLog("update a=1", "update b=1")
	})
}
