package reconciler_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

var (
	simulationSeed = flag.Uint64("seed", 0, "run the simulation with this seed only")
	simulations    = flag.Uint64("simulations", defaultSimulations, "how many seeds the simulation runs with")
)

// simulation is a world with writers, faults and a source that comes and goes.
// A seed decides about all of it; times are distinct, so that no two things
// happen at one instant.
type simulation struct {
	*world
	seed uint64
	// lenient: things happen that only a full pass repairs.
	lenient bool

	live atomic.Pointer[reconciler.Reconciler[row]]

	mu       sync.Mutex
	attempts map[string]int // operations by key
}

// TestSimulation lets writers, faults and restarts loose on a reconciler, then
// ends the faults: everything has to come right by itself.
func TestSimulation(t *testing.T) {
	first, last := uint64(1), *simulations
	if *simulationSeed != 0 {
		first, last = *simulationSeed, *simulationSeed
	}
	for seed := first; seed <= last; seed++ {
		simulate(t, seed)
	}
}

func TestSimulationRepeatsItselfWithOneSeed(t *testing.T) {
	for seed := uint64(1001); seed < 1006; seed++ {
		first, second := simulate(t, seed), simulate(t, seed)
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

// simulate returns the operations with their times.
func simulate(t *testing.T, seed uint64) (log []string) {
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if t.Failed() {
				t.Logf("repeat with: go test ./reconciler -run 'TestSimulation$' -seed %d", seed)
			}
		}()
		s := &simulation{world: newWorld(t), seed: seed, attempts: map[string]int{}}
		random := s.random("config")
		s.lenient = random.IntN(2) == 0
		s.world.seed = seed
		s.prunes = random.IntN(3) == 0
		s.config = reconciler.Config{
			Workers: 1 + random.IntN(8), Limits: reconciler.Limits{RoundSize: 1 + random.IntN(20)}, FullInterval: -1,
			MinBackoff: 10 * time.Millisecond, MaxBackoff: time.Second,
			OperationTimeout: 300 * time.Millisecond, StopTimeout: 50 * time.Millisecond,
		}
		if s.lenient {
			s.config.FullInterval = time.Duration(1+random.IntN(3000)) * time.Millisecond
		}
		s.limit()
		s.run(random)
		s.wantConverged()
		s.equal("queued", []string(nil), s.r.Items())
		s.equal("deleting", 0, s.deleting())
		s.equal("health", "ok: reconciled", s.health.last())
		s.equal("errors", 0, s.metrics().errorsCurrent)
		s.stop()
		log = s.log()
	})
	return log
}

// run lets everything loose for some seconds, with restarts, and then waits for
// the reconciler to come to rest.
func (s *simulation) run(random *rand.Rand) {
	source := s.source("source")
	s.target.will(s.act)
	s.restart()
	var others sync.WaitGroup
	for i := range 3 {
		others.Go(func() { s.writer("writer" + strconv.Itoa(i)) })
	}
	others.Go(func() { s.flicker(source) })
	if s.lenient {
		others.Go(s.vandal)
	}
	others.Go(s.approver)
	for range random.IntN(4) {
		take(some(random, 2*time.Second))
		s.stop()
		take(some(random, 300*time.Millisecond))
		s.restart()
	}
	others.Wait()
	synctest.Wait() // one thing after the other, so that each run is the same
	s.target.will(nil)
	s.update(source.Complete)
	synctest.Wait()
	if s.lenient {
		s.r.FullPass()
	}
	s.pass(time.Minute)
	s.approveAll()
	s.r.FullPass() // finds nothing
	before := s.metrics().outOfSync
	s.pass(time.Second)
	if !s.lenient {
		s.equal("out of sync", before, s.metrics().outOfSync)
	}
}

// limit sets how much may be changed without an approval.
func (s *simulation) limit() {
	random := s.random("limit")
	limits := [2]reconciler.ChangeLimit{}
	for i := range limits {
		limits[i] = reconciler.ChangeLimit{
			Rows: 1 + random.IntN(8), Percent: float64(1 + random.IntN(60)), Window: some(random, 3*time.Second),
			Off: random.IntN(2) == 0,
		}
	}
	s.config.DeleteLimit, s.config.UpdateLimit = limits[0], limits[1]
}

// approver looks at what is held now and then, and approves it some time later.
func (s *simulation) approver() {
	random := s.random("approver")
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		take(some(random, 500*time.Millisecond))
		plan, err := s.live.Load().Plan(s.t.Context())
		take(some(random, 100*time.Millisecond))
		if err == nil && plan.ID != "" {
			_ = s.live.Load().Approve(s.t.Context(), plan.ID) // it may be another run
		}
	}
}

// approveAll approves what is held until nothing is.
func (s *simulation) approveAll() {
	for plan := must(s.r.Plan(s.t.Context())); plan.ID != ""; plan = must(s.r.Plan(s.t.Context())) {
		if err := s.r.Approve(s.t.Context(), plan.ID); err != nil {
			s.t.Error(err)
			return
		}
		s.pass(time.Minute)
	}
}

func (s *simulation) restart() {
	s.start()
	s.live.Store(s.r)
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
	r := row{ID: "k" + strconv.Itoa(random.IntN(12)), Want: random.IntN(5)}
	var err error
	switch random.IntN(8) {
	case 0, 1:
		_, _, err = s.table.Delete(txn, r)
	case 2: // another reconciler's status
		_, err = s.table.Amend(txn, r, s.table.Revision(txn), func(current row) row {
			current.Other = otherStatus(random.IntN(100))
			return current
		})
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

// flicker is a source that delivers late, and is incomplete at times.
func (s *simulation) flicker(source *statedb.Source[row]) {
	random := s.random("source")
	take(some(random, 200*time.Millisecond))
	s.update(source.Initialized)
	for range random.IntN(6) {
		take(some(random, time.Second))
		s.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "broken") })
		take(some(random, 500*time.Millisecond))
		s.update(source.Complete)
	}
}

// vandal changes the target behind the reconciler's back, and asks for full passes.
func (s *simulation) vandal() {
	random := s.random("vandal")
	for range random.IntN(20) {
		take(some(random, 300*time.Millisecond))
		switch random.IntN(4) {
		case 0:
			s.target.corrupt("old"+strconv.Itoa(random.IntN(5)), 1)
		case 1:
			s.target.corrupt("k"+strconv.Itoa(random.IntN(12)), 9)
		default:
			s.live.Load().FullPass()
		}
	}
}

// act is how the target behaves: at the n-th operation on a key always the same.
func (s *simulation) act(ctx context.Context, c call) (reconciler.Result, error) {
	s.mu.Lock()
	s.attempts[c.id]++
	random := s.random(fmt.Sprint(c.id, s.attempts[c.id]))
	s.mu.Unlock()
	take(some(random, 30*time.Millisecond))
	fault := fmt.Errorf("fault %d", random.IntN(3))
	if random.IntN(4) == 0 && (c.op == "update" || c.op == "delete") {
		s.target.half(c) // it may have its effect and fail nevertheless
	}
	switch random.IntN(20) {
	case 0, 1, 2:
		return reconciler.Result{}, fault
	case 3:
		panic(fault)
	case 4:
		<-ctx.Done()
		take(some(random, 5*time.Millisecond)) // others may end with it
		return reconciler.Result{}, ctx.Err()
	case 5:
		return reconciler.Result{}, reconciler.RetryAfter(some(random, 2*time.Second), fault)
	case 6:
		if s.lenient {
			return reconciler.Result{}, reconciler.Terminal(fault)
		}
	case 7:
		return reconciler.Result{Again: some(random, 2*time.Second)}, nil
	case 8:
		select {
		case <-time.After(some(random, time.Second)):
		case <-ctx.Done():
			take(some(random, 5*time.Millisecond))
			return reconciler.Result{}, errors.Join(fault, context.Cause(ctx))
		}
	}
	return reconciler.Result{}, nil
}

// log returns the operations, those of one instant ordered by key.
func (s *simulation) log() []string {
	calls := s.target.took()
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	texts := make([]string, len(calls))
	for i, c := range calls {
		texts[i] = c.at.Format("05.000000000 ") + c.String()
	}
	return texts
}
