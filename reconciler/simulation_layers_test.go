package reconciler_test

import (
	"context"
	"errors"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// layered is a simulation of reconcilers on top of each other, as those of links,
// addresses and routes are. Rows of a layer depend on those of the layer below it,
// or of their own, and what they are in the target is gone when those are. Nobody makes full passes:
// what others do is told by a feed of what is observed, which is late.
type layered struct {
	t      *testing.T
	random *rand.Rand // of what happens in order
	chance *chance    // of all else
	layers []*layer   // the lowest first
	calm   atomic.Bool
	others sync.WaitGroup // those who hold tables
}

// simulateLayers runs a layered simulation and checks that everything comes right
// in the end, and that no row was done for long while it was seen to differ.
func simulateLayers(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		s := newLayered(t, seed)
		var feeds sync.WaitGroup
		for _, l := range s.layers {
			slowest := 1 + s.random.IntN(50)
			feeds.Go(func() { l.feed(slowest) })
			l.launch()
		}
		for range 100 {
			s.rest(some(s.random, 100*time.Millisecond))
			s.step(s.layers[s.random.IntN(len(s.layers))])
		}
		s.comeToRest()
		for _, l := range slices.Backward(s.layers) {
			l.leave()
			close(l.events)
		}
		feeds.Wait()
		if t.Failed() {
			t.Logf("repeat with: go test ./reconciler -run 'TestSimulation$' -seed %d", seed)
		}
	})
}

func newLayered(t *testing.T, seed uint64) *layered {
	hash := fnv.New64a()
	hash.Write([]byte("layers"))
	s := &layered{t: t, random: rand.New(rand.NewPCG(seed, hash.Sum64())), chance: newChance(seed)}
	group := &reconciler.Group{}
	base := newWorld(t)
	names := [][]string{{"ports"}, {"links"}, {"links", "addresses"}, {"links", "addresses", "routes"}}[s.random.IntN(4)]
	for i, name := range names {
		w := *base
		l := &layer{world: &w, s: s, number: i, nested: name == "ports", events: make(chan string, 100_000)}
		l.touched, l.differs = map[string]time.Time{}, map[string]difference{}
		l.name, l.seed, l.target, l.health, l.moves = name, seed, newFake(), &healthLog{}, &moves{}
		l.target.promise = l.promise
		l.target.will(l.act)
		l.config = s.someConfig()
		l.batches = s.random.IntN(3) == 0
		l.makeTable()
		l.makeSeen()
		last := s.random.IntN(3) == 0
		l.params = func(p *reconciler.Params[row]) {
			p.Group, p.Observed, p.DeletesLast = group, l.observed, last
			if below := l.below(); below != nil {
				p.DependsOn = []reconciler.Dependency[row]{reconciler.DependsOn(statedb.ReadOnly(below.rows()), row.GetStatus,
					func(r row) iter.Seq[statedb.Query[row]] { return byIDs(parentOf(r.ID)) }, below.observed)}
			}
		}
		s.layers = append(s.layers, l)
	}
	return s
}

func (s *layered) someConfig() reconciler.Config {
	c := reconciler.Config{
		FullInterval: -1, Workers: 1 + s.random.IntN(4), MinBackoff: 10 * time.Millisecond, MaxBackoff: time.Second,
		OperationTimeout: 300 * time.Millisecond, StopTimeout: 50 * time.Millisecond,
		DeleteLimit: reconciler.ChangeLimit{Off: true},
	}
	if s.random.IntN(2) == 0 {
		c.StopTimeout = 2 * time.Second
	}
	if s.random.IntN(4) == 0 {
		c.DeleteLimit = reconciler.ChangeLimit{Rows: 1 + s.random.IntN(4), Percent: 10, Window: time.Second}
	}
	c.Drift.Settle = some(s.random, 300*time.Millisecond)
	if s.random.IntN(6) == 0 {
		c.Drift.Policy = reconciler.DriftReport
	}
	return c
}

// step has something happen to a layer.
func (s *layered) step(l *layer) {
	id := l.someID()
	switch n := s.random.IntN(24); {
	case n < 8:
		l.write(row{ID: id, Want: s.random.IntN(3)})
	case n < 10:
		l.erase(id)
	case n < 12:
		l.remove(id)
	case n < 14:
		if _, there := l.target.state()[id]; there {
			l.target.corrupt(id, s.random.IntN(3))
			l.events <- id
		}
	case n < 16:
		until := time.Time{}
		if s.random.IntN(2) == 0 {
			until = time.Now().Add(some(s.random, time.Second))
		}
		l.meddled(l.latest().Pause(context.Background(), reconciler.Selector[row]{Keys: []string{id}}, until))
		if s.random.IntN(2) == 0 {
			l.remove(id)
		}
	case n < 17:
		l.meddled(l.latest().Resume(context.Background(), reconciler.Selector[row]{}))
	case n < 18:
		_, err := l.latest().Trigger(context.Background(), reconciler.Selector[row]{Keys: []string{id}})
		l.meddled(err)
	case n < 21:
		s.holdSome(l)
	case n < 22:
		l.leave()
		s.rest(some(s.random, 300*time.Millisecond))
		l.launch()
	case n < 23:
		s.replace(l, func() statedb.TableMeta { return l.sights.seen }, l.makeSeen)
	default:
		s.replace(l, func() statedb.TableMeta { return l.table }, l.makeTable)
	}
}

func (l *layer) meddled(err error) {
	if err != nil && !errors.Is(err, reconciler.ErrNotRunning) {
		l.t.Error(err)
	}
}

// holdSome has somebody hold some tables of a layer for a while.
func (s *layered) holdSome(l *layer) {
	var tables []statedb.TableMeta
	for _, table := range []statedb.TableMeta{l.table, l.sights.seen, l.notDone} {
		if s.random.IntN(2) == 0 {
			tables = append(tables, table)
		}
	}
	if len(tables) == 0 {
		return
	}
	for _, other := range s.layers { // they share a table
		other.held.Add(1)
	}
	d := some(s.random, time.Second)
	s.others.Go(func() {
		txn, err := l.db.WriteTxn(context.Background(), tables...)
		if err == nil {
			take(d)
			txn.Abort()
		} else if !errors.Is(err, statedb.ErrDropped) {
			l.t.Error(err)
		}
		for _, other := range s.layers {
			other.held.Add(-1)
		}
	})
}

// replace drops a table of a layer while everything runs, which must not have
// anything removed, and makes it again some time later.
func (s *layered) replace(l *layer, table func() statedb.TableMeta, makeAgain func()) {
	rowsToo := table() == statedb.TableMeta(l.table)
	l.drop(table())
	if l.dropped, l.blind = rowsToo, !rowsToo; rowsToo {
		if l.batches { // the rest of a batch is up to the target
			s.rest(l.config.OperationTimeout)
		}
		l.target.took()
	}
	s.rest(some(s.random, 500*time.Millisecond))
	for _, c := range l.target.took() {
		if rowsToo && c.op == "delete" {
			l.t.Errorf("%v because the table of %s was dropped", c, l.name)
		}
	}
	for _, upper := range slices.Backward(s.layers[l.number:]) { // they were made for the table
		upper.leave()
	}
	s.others.Wait()
	makeAgain()
	l.dropped, l.blind = false, false
	for _, upper := range s.layers[l.number:] {
		upper.launch()
	}
}

// leave ends the run of a reconciler, which is soon over whoever holds its tables.
func (l *layer) leave() {
	held, began := l.held.Load() > 0, time.Now()
	l.cancel()
	err := <-l.ended
	l.ended = nil
	clear(l.differs)
	if took := time.Since(began); took > l.config.StopTimeout+l.config.OperationTimeout {
		l.t.Errorf("the end of %s took %v", l.name, took)
	}
	if err != nil && !held && (!l.dropped || !errors.Is(err, statedb.ErrDropped)) {
		l.t.Errorf("Run of %s: %v", l.name, err)
	}
	l.wantKnownMoves()
	if faults := l.target.faults; len(faults) > 0 {
		l.t.Errorf("promises of %s broken: %q", l.name, faults)
	}
}

// rest lets time go by.
func (s *layered) rest(d time.Duration) {
	const step = 20 * time.Millisecond
	for ; d > 0; d -= step {
		take(min(d, step))
		synctest.Wait()
		for _, l := range s.layers {
			l.lookForLies()
		}
	}
}

// comeToRest ends all faults. What is wanted is there some time later, and stays so
// without another operation.
func (s *layered) comeToRest() {
	s.others.Wait()
	s.calm.Store(true)
	s.pass(time.Second) // all of them run
	for _, l := range s.layers {
		l.check(l.latest().Resume(context.Background(), reconciler.Selector[row]{}))
		if below := l.below(); below != nil { // rows on nothing cannot be made
			for r := range l.table.All(l.db.ReadTxn()) { // what one is on comes before it
				_, _, there := below.table.Get(l.db.ReadTxn(), byID.Query(parentOf(r.ID)))
				if parentOf(r.ID) != "" && !there {
					l.erase(r.ID)
				}
			}
		}
	}
	for range s.layers { // each may wait for the one before
		s.pass(time.Minute)
		for _, l := range s.layers {
			for plan := must(l.latest().Plan(s.t.Context())); plan.ID != ""; plan = must(l.latest().Plan(s.t.Context())) {
				l.check(l.latest().Approve(s.t.Context(), plan.ID))
				s.pass(time.Second)
			}
			if l.config.Drift.Policy == reconciler.DriftReport {
				must(l.latest().Trigger(s.t.Context(), reconciler.Selector[row]{}))
				s.pass(time.Minute)
			}
		}
	}
	s.pass(time.Hour)
	for _, l := range s.layers {
		l.wantConverged()
		l.target.log()
	}
	s.pass(time.Hour)
	for _, l := range s.layers {
		l.equal("operations of "+l.name, []string{}, l.target.log())
		l.equal("health of "+l.name, "ok: reconciled", l.health.last())
	}
}

func (s *layered) pass(d time.Duration) { s.layers[0].pass(d) }
