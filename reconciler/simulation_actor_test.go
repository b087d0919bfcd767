package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// actor is a reconciler of a simulation, its target, and those who meddle with
// either.
type actor struct {
	*world
	s           *simulation
	live        atomic.Pointer[runner]
	events      chan string
	initialized atomic.Bool // Init has succeeded
	restarts    atomic.Int32

	mu       sync.Mutex
	attempts map[string]int // operations by key
}

func newActor(s *simulation, w *world) *actor {
	a := &actor{world: w, s: s, attempts: map[string]int{}, events: make(chan string, 64)}
	w.params = func(p *reconciler.Params[row]) {
		p.Related, p.DeletesLast = relatedRows(a, rowsByValue()), s.deletesLast
	}
	w.target.will(a.act)
	return a
}

func (a *actor) begin() {
	if a.s.pointers {
		a.launchByPointer()
	} else {
		a.launch()
	}
	r := a.latest()
	a.live.Store(&r)
	a.restarts.Add(1)
}

// now is the reconciler that runs.
func (a *actor) now() runner { return *a.live.Load() }

// begins sets loose those who meddle.
func (a *actor) begins(others *sync.WaitGroup) {
	others.Go(a.meddle)
	others.Go(a.approver)
	others.Go(a.watch)
	others.Go(a.sendEvents)
	if a.s.lenient {
		others.Go(a.vandal)
	}
}

func (a *actor) random(name string) *rand.Rand { return a.s.random(a.name + name) }

// wantRest checks that all is done, and that the reconciler knows.
func (a *actor) wantRest() {
	a.t.Helper()
	a.wantConverged()
	queued := slices.DeleteFunc(a.now().Items(), func(item string) bool { // a full pass may be under way
		return a.config.FullInterval > 0 && strings.Contains(item, "full=true")
	})
	a.equal("queued", 0, len(queued))
	a.equal("deleting", 0, a.deleting())
	a.equal("health", "ok: reconciled", a.health.last())
	a.equal("errors", 0, a.metrics().errorsCurrent)
	if a.config.FullInterval < 0 {
		a.wantIdle()
	}
}

// approver looks at what is held now and then, and approves it some time later.
func (a *actor) approver() {
	random := a.random("approver")
	for end := time.Now().Add(4 * time.Second); a.limited() && time.Now().Before(end); {
		take(some(random, 500*time.Millisecond))
		plan, err := a.now().Plan(a.t.Context())
		take(some(random, 100*time.Millisecond))
		if err == nil && plan.ID != "" {
			_ = a.now().Approve(a.t.Context(), plan.ID) // it may be another run
		}
	}
}

// limited says that what is too much at once waits for an approval.
func (a *actor) limited() bool { return !a.config.DeleteLimit.Off || !a.config.UpdateLimit.Off }

// approveAll approves what is held until nothing is.
func (a *actor) approveAll() {
	for plan := must(a.now().Plan(a.t.Context())); plan.ID != ""; plan = must(a.now().Plan(a.t.Context())) {
		if err := a.now().Approve(a.t.Context(), plan.ID); err != nil {
			a.t.Error(err)
			return
		}
		a.pass(10 * time.Second)
	}
}

// vandal changes the target behind the reconciler's back, and asks for full passes.
func (a *actor) vandal() {
	random := a.random("vandal")
	for range random.IntN(20) {
		take(some(random, 300*time.Millisecond))
		switch random.IntN(4) {
		case 0:
			a.target.corrupt("old"+strconv.Itoa(random.IntN(5)), 1)
		case 1:
			a.target.corrupt(someKey(random), 9)
		default:
			a.now().FullPass()
		}
	}
}

// meddle triggers, pauses and resumes rows, and changes limits.
func (a *actor) meddle() {
	random := a.random("meddler")
	for range random.IntN(12) {
		take(some(random, 500*time.Millisecond))
		if err := a.meddleOnce(random, a.now()); err != nil && !errors.Is(err, reconciler.ErrNotRunning) && !errors.Is(err, reconciler.ErrAllPaused) {
			a.t.Error(err)
		}
	}
}

func (a *actor) meddleOnce(random *rand.Rand, r runner) error {
	which, ctx := someSelector(random), context.Background()
	if random.IntN(4) == 0 {
		limits := r.Limits()
		limits.RoundSize = 1 + random.IntN(20)
		return r.SetLimits(limits)
	}
	switch n := random.IntN(5); {
	case n == 0 && a.s.pauses:
		return r.Pause(ctx, which, time.Now().Add(some(random, time.Second)))
	case n == 1 && a.s.pauses:
		return r.Pause(ctx, which, time.Time{})
	case n == 2 && a.s.pauses:
		return r.Resume(ctx, which)
	default:
		_, err := r.Trigger(ctx, which)
		return err
	}
}

// sendEvents has rows run, some of which are gone, or will be soon.
func (a *actor) sendEvents() {
	random := a.random("events")
	for range random.IntN(15) {
		take(some(random, 500*time.Millisecond))
		select {
		case a.events <- someKey(random) + " " + someKey(random):
		default: // nobody has listened for long
		}
	}
}

// relatedRows are what has rows run besides their own changes. Who names them takes
// a while, so that they may be gone meanwhile.
func relatedRows[Obj any](a *actor, kind rowKind[Obj]) []reconciler.Related[Obj] {
	slowly := func(name string) func(keys string) iter.Seq[statedb.Query[Obj]] {
		random := a.random(name + strconv.Itoa(int(a.restarts.Load())))
		return func(keys string) iter.Seq[statedb.Query[Obj]] {
			take(some(random, naming))
			return func(yield func(statedb.Query[Obj]) bool) {
				for key := range strings.FieldsSeq(keys) {
					if !yield(kind.byID.Query(key)) {
						return
					}
				}
			}
		}
	}
	named, owners := slowly("named"), slowly("owners")
	return []reconciler.Related[Obj]{
		reconciler.Events(a.events, func(_ statedb.ReadTxn, keys string) iter.Seq[statedb.Query[Obj]] { return named(keys) }),
		reconciler.Watches(statedb.ReadOnly(a.s.children), func(_ statedb.ReadTxn, c child) iter.Seq[statedb.Query[Obj]] { return owners(c.Owners) }),
	}
}

func someSelector(random *rand.Rand) (which reconciler.Selector[row]) {
	switch random.IntN(3) {
	case 0:
		which.Keys = []string{someKey(random), someKey(random), someKey(random)}
	case 1:
		odd := random.IntN(2)
		which.Match = func(r row) bool { return r.Want%2 == odd }
	}
	return which
}

// act is how the target behaves: at the n-th operation on a key always the same.
func (a *actor) act(ctx context.Context, c call) (result reconciler.Result, err error) {
	a.mu.Lock()
	a.attempts[c.id]++
	random := a.random(fmt.Sprint(c.id, a.attempts[c.id]))
	a.mu.Unlock()
	take(some(random, 30*time.Millisecond))
	if random.IntN(4) == 0 && (c.op == "update" || c.op == "delete") {
		a.target.half(c) // it may have its effect and fail nevertheless
	}
	result, err = a.misbehave(ctx, c, random)
	if c.op == "init" && err == nil {
		a.initialized.Store(true)
	}
	return result, err
}

func (a *actor) misbehave(ctx context.Context, c call, random *rand.Rand) (reconciler.Result, error) {
	fault := fmt.Errorf("fault %d", random.IntN(3))
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
		if a.s.lenient {
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
	case 9:
		runtime.Goexit()
	case 10:
		if a.s.stubborn && c.op != "prune" {
			take(some(random, 2*time.Second))
		}
	}
	return reconciler.Result{}, nil
}

// naming is how long the rows of a child may take to be named, and children how many
// there are at most: those that are there at the start are named before anything runs.
const (
	naming   = 50 * time.Millisecond
	children = 3
)

// patience is how long a pending row may wait for a hand that is free, and one
// that failed for being tried again.
const (
	patience      = 100*time.Millisecond + children*naming
	retryPatience = 2500 * time.Millisecond
)

// watch sees whether rows wait although hands are free.
func (a *actor) watch() {
	if a.prunes || a.batches || a.config.Debounce > 0 || a.config.Limits.Limiter != nil || a.limited() || a.s.pauses {
		return // reasons to wait: a row of a batch waits for the rest of it
	}
	waits := map[string]time.Time{}
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		take(10 * time.Millisecond)
		now := time.Now()
		waiting := a.waiting()
		for what := range waits {
			if !waiting[what] {
				delete(waits, what)
			}
		}
		for what := range waiting {
			since, known := waits[what]
			if !known {
				waits[what] = now
				continue
			}
			limit := retryPatience
			if strings.HasPrefix(what, "pending") {
				limit = patience + a.rounds()
			}
			if now.Sub(since) > limit {
				a.t.Errorf("%s of %q waits since %v although a hand is free", what, a.name, now.Sub(since))
				return
			}
		}
	}
}

// roundPatience is how long a round keeps the rows of the next one waiting.
const roundPatience = 10 * time.Millisecond

// rounds is how long all rows may take until they are in a round.
func (a *actor) rounds() time.Duration {
	rows, size := 0, 1
	if n := len(a.made); n > 0 {
		size = a.made[n-1].Limits().RoundSize
	}
	for range a.table.All(a.db.ReadTxn()) {
		rows++
	}
	return roundPatience * time.Duration(rows/size+1)
}

// waiting returns what could be done by a hand that is free now.
func (a *actor) waiting() map[string]bool {
	waiting := map[string]bool{}
	txn := a.db.ReadTxn()
	for _, s := range a.table.Sources(txn) {
		if !s.Initialized {
			return waiting
		}
	}
	if !a.initialized.Load() || a.target.busy() >= a.config.Workers {
		return waiting
	}
	there := map[string]bool{}
	for r := range a.table.All(txn) {
		there[r.ID] = true
		if a.target.inFlight(r.ID) {
			continue
		}
		switch kind := a.statusOf(r).Kind(); {
		case kind == reconciler.Pending:
			waiting["pending "+r.ID] = true
		case kind == reconciler.Error && !a.s.lenient:
			waiting["failed "+r.ID] = true
		}
	}
	for id := range a.target.state() {
		if !there[id] && !a.target.inFlight(id) && !a.s.lenient && a.restarts.Load() == 1 {
			waiting["deleted "+id] = true
		}
	}
	return waiting
}
