package reconciler_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

var (
	simulationSeed = flag.Uint64("seed", 0, "run the simulation with this seed only")
	simulations    = flag.Uint64("simulations", defaultSimulations, "how many seeds the simulation runs with")
)

// simulation is some reconcilers on a table, with writers, faults, and sources
// that come and go. A seed decides about all of it; times are distinct, so that
// no two things happen at one instant.
type simulation struct {
	*world
	seed   uint64
	actors []*actor // one for each reconciler; the first is that of the world

	// lenient: things happen that only a full pass repairs.
	lenient bool
	// deletesLast: see Params.DeletesLast.
	deletesLast bool
	// stubborn: some operations do not heed their context.
	stubborn bool
	// pauses: somebody pauses rows.
	pauses bool
	// pointers: the rows are by pointer.
	pointers bool
	children *statedb.RWTable[child] // that have rows run
}

// TestSimulation lets writers, faults and restarts loose on reconcilers of one
// table, and on some that depend on each other, then ends the faults: everything
// has to come right by itself.
func TestSimulation(t *testing.T) {
	first, last := uint64(1), *simulations
	if *simulationSeed != 0 {
		first, last = *simulationSeed, *simulationSeed
	}
	for seed := first; seed <= last; seed++ {
		simulate(t, seed, 3)
		simulateLayers(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d failed after %d runs", seed, seed-first)
		}
	}
	t.Logf("%d runs, with the seeds %d to %d", last-first+1, first, last)
}

// TestSimulationRepeatsItselfWithOneSeed has one reconciler at a time: several that
// wake at one instant may read the table before or after each other's writes.
func TestSimulationRepeatsItselfWithOneSeed(t *testing.T) {
	for seed := uint64(1001); seed < 1011; seed++ {
		first, second := simulate(t, seed, 1), simulate(t, seed, 1)
		for i := range min(len(first), len(second)) {
			if first[i] != second[i] {
				t.Fatalf("seed %d: operation %d is %q, then %q", seed, i, first[i], second[i])
			}
		}
		if len(first) != len(second) {
			t.Errorf("seed %d: %d operations, then %d", seed, len(first), len(second))
		}
	}
}

// simulate runs with up to so many reconcilers, and returns the operations with
// their times.
func simulate(t *testing.T, seed uint64, most int) (log []string) {
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if t.Failed() {
				t.Logf("repeat with: go test ./reconciler -run 'TestSimulation$' -seed %d", seed)
			}
		}()
		s := newSimulation(t, seed, most)
		s.run()
		for _, a := range s.actors {
			a.wantRest()
			a.stop()
			log = append(log, a.log()...)
		}
	})
	return log
}

func newSimulation(t *testing.T, seed uint64, most int) *simulation {
	s := &simulation{world: newWorld(t), seed: seed}
	random := s.random("config")
	s.lenient, s.stubborn, s.pauses = random.IntN(2) == 0, random.IntN(2) == 0, random.IntN(2) == 0
	s.prunes = random.IntN(3) == 0
	s.deletesLast = s.random("deletes").IntN(3) == 0
	if s.pointers = s.random("rows").IntN(3) == 0; s.pointers {
		s.table = newPointerTable(s.db)
	}
	s.children = must(statedb.NewTable(s.db, statedb.Schema[child]{Name: "children", Primary: childByID}))
	worlds := []*world{s.world}
	switch random.IntN(3) {
	case 0:
		worlds = append(worlds, s.another("other", otherField), s.another("third", thirdField))
	case 1:
		worlds = append(worlds, s.another("other", otherField))
	}
	for _, w := range worlds[:min(most, len(worlds))] {
		w.seed = seed
		w.batches = random.IntN(3) == 0
		w.config = s.randomConfig(random)
		s.actors = append(s.actors, newActor(s, w))
	}
	return s
}

func (s *simulation) randomConfig(random *rand.Rand) reconciler.Config {
	c := reconciler.Config{
		Workers: 1 + random.IntN(8), Limits: reconciler.Limits{RoundSize: 1 + random.IntN(20)}, FullInterval: -1,
		MinBackoff: 10 * time.Millisecond, MaxBackoff: time.Second,
		OperationTimeout: 300 * time.Millisecond, StopTimeout: 50 * time.Millisecond,
	}
	if s.lenient {
		c.FullInterval = time.Second + some(random, 2*time.Second)
	}
	if random.IntN(3) == 0 {
		c.Debounce = some(random, 60*time.Millisecond)
	}
	if random.IntN(4) == 0 {
		c.Limits.Limiter = rate.NewLimiter(rate.Limit(50+random.IntN(500)), 1+random.IntN(10))
	}
	off := random.IntN(3) > 0
	for _, limit := range []*reconciler.ChangeLimit{&c.DeleteLimit, &c.UpdateLimit} {
		*limit = reconciler.ChangeLimit{
			Rows: 1 + random.IntN(8), Percent: float64(1 + random.IntN(60)), Window: some(random, 3*time.Second),
			Off: off || random.IntN(2) == 0,
		}
	}
	return c
}

// run lets everything loose for some seconds, with restarts, and then waits for
// the reconcilers to come to rest.
func (s *simulation) run() {
	random := s.random("life")
	sources := []feed{s.feed("source"), s.feed("tap")}
	for _, a := range s.actors {
		a.begin()
	}
	var others sync.WaitGroup
	for i := range 3 {
		others.Go(func() { s.writer("writer" + strconv.Itoa(i)) })
	}
	others.Go(s.parent)
	for i, source := range sources {
		others.Go(func() { s.flicker("source"+strconv.Itoa(i), source) })
	}
	for _, a := range s.actors {
		a.begins(&others)
	}
	if random.IntN(25) == 0 {
		others.Go(s.flood)
	}
	for range random.IntN(4) {
		take(some(random, 2*time.Second))
		a := s.actors[random.IntN(len(s.actors))]
		a.leave()
		take(some(random, 300*time.Millisecond))
		a.begin()
	}
	others.Wait()
	synctest.Wait() // one thing after the other, so that each run is the same
	s.calm(sources)
}

// calm ends all faults and waits for as long as anything may take then.
func (s *simulation) calm(sources []feed) {
	for _, a := range s.actors {
		a.target.will(nil) // before anything that has operations run at this instant
	}
	for _, source := range sources {
		s.update(source.Complete)
	}
	s.pass(5 * time.Second) // all have begun, so that the rest is the same in each run
	for _, a := range s.actors {
		a.resume()
		synctest.Wait()
		if s.lenient {
			a.now().FullPass()
		}
	}
	s.pass(10 * time.Second)
	for _, a := range s.actors {
		a.approveAll()
		a.now().FullPass() // finds nothing
		before := a.metrics().outOfSync
		s.pass(time.Second)
		if !s.lenient {
			s.equal("out of sync", before, a.metrics().outOfSync)
		}
	}
}

// random returns numbers that the seed and a name decide about.
func (s *simulation) random(name string) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return rand.New(rand.NewPCG(s.seed, hash.Sum64()))
}

// some returns a time up to limit.
func some(random *rand.Rand, limit time.Duration) time.Duration {
	return 1 + time.Duration(random.Int64N(int64(limit)))
}

// someKey returns one of a few keys.
func someKey(random *rand.Rand) string { return "k" + strconv.Itoa(random.IntN(12)) }

// writer writes and deletes rows for some seconds.
func (s *simulation) writer(name string) {
	random := s.random(name)
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		take(some(random, 150*time.Millisecond))
		s.update(func(txn *statedb.WriteTxn) error {
			for range 1 + random.IntN(4) {
				if err := s.writeSomething(random, txn); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func (s *simulation) writeSomething(random *rand.Rand, txn *statedb.WriteTxn) error {
	r := row{ID: someKey(random), Want: random.IntN(5)}
	var err error
	switch random.IntN(8) {
	case 0, 1:
		_, _, err = s.table.Delete(txn, r)
	case 2: // another reconciler's status
		status := otherStatus(random.IntN(100))
		if len(s.actors) == 1 {
			_, err = s.table.Amend(txn, r, s.table.Revision(txn), func(current row) row {
				current.Other = status
				return current
			})
		}
	case 3: // with a status that means nothing
		r.Status = otherStatus(0)
		_, _, err = s.table.Insert(txn, r)
	case 4: // gone and back
		if _, _, err = s.table.Delete(txn, r); err == nil {
			_, _, err = s.table.Insert(txn, r)
		}
	default:
		_, _, err = s.table.Insert(txn, r)
	}
	return err
}

// parent writes and deletes children, which have rows run that may be gone.
func (s *simulation) parent() {
	random := s.random("parent")
	for range random.IntN(15) {
		take(some(random, 500*time.Millisecond))
		c := child{ID: strconv.Itoa(random.IntN(children)), Owners: someKey(random) + " " + someKey(random), Number: random.IntN(9)}
		if random.IntN(3) == 0 {
			remove(s.t, s.db, s.children, c)
		} else {
			insert(s.t, s.db, s.children, c)
		}
	}
}

// flicker is a source that delivers late, and is incomplete at times.
func (s *simulation) flicker(name string, source feed) {
	random := s.random(name)
	take(some(random, 200*time.Millisecond))
	s.update(source.Initialized)
	for range random.IntN(6) {
		take(some(random, time.Second))
		s.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "broken") })
		take(some(random, 500*time.Millisecond))
		s.update(source.Complete)
	}
}

// flood deletes more rows than the feed keeps.
func (s *simulation) flood() {
	random := s.random("flood")
	take(some(random, 3*time.Second))
	for range 40 {
		s.update(func(txn *statedb.WriteTxn) error {
			for range 1000 {
				if _, _, err := s.table.Insert(txn, row{ID: "busy"}); err != nil {
					return err
				}
				if _, _, err := s.table.Delete(txn, row{ID: "busy"}); err != nil {
					return err
				}
			}
			return s.writeSomething(random, txn)
		})
	}
}

// log returns the operations, those of one instant ordered by key.
func (a *actor) log() []string {
	calls := a.target.took()
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	texts := make([]string, len(calls))
	for i, c := range calls {
		texts[i] = a.name + c.at.Format(" 05.000000000 ") + c.String()
	}
	return texts
}

// leave ends the run of a reconciler, and waits for what it left behind: the next
// one must not meet that.
func (a *actor) leave() {
	a.initialized.Store(false)
	a.cancel()
	err := <-a.ended
	a.ended = nil
	var stuck *reconciler.StuckError
	if err != nil && (!a.s.stubborn || !errors.As(err, &stuck)) {
		a.t.Errorf("Run: %v", err)
	}
	for a.target.busy() > 0 {
		take(10 * time.Millisecond)
	}
	a.initialized.Store(false) // nor an Init that came late
}

func (a *actor) resume() {
	if err := a.now().Resume(context.Background(), reconciler.Selector[row]{}); err != nil && !errors.Is(err, reconciler.ErrNotRunning) {
		a.t.Error(err)
	}
}
