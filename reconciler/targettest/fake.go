package targettest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// FakeConfig describes the rows of a [Fake]. Key and Spec are required.
type FakeConfig[Obj any] struct {
	// Key returns the key of a row.
	Key func(Obj) string
	// Spec returns the contents of a row, without statuses, as text.
	Spec func(Obj) string
	// Version, if not nil, returns the version of a row. An operation with a row older
	// than that of the last Update of its key is then a violation, except for a Delete of
	// a row that Observe has yielded since. Rows of version 0 are never too old.
	Version func(Obj) uint64
	// Promise, if not nil, returns what is wrong with an Update, Delete or Prune of the
	// caller, or "". For Prune it is called with the zero row.
	Promise func(op Operation, txn statedb.ReadTxn, obj Obj) string
}

// Fake is a target whose world is in memory. Its operations fail as [Fake.Will]
// decides. They are logged, and checked for violations of the contract: see
// [Fake.Violations]. The fake owns the objects that it has made; there can also be
// foreign objects, which it leaves alone.
//
// It is an observer and a differ; [Fake.Observing] and [Fake.Pruning] return the same
// target with fewer methods. It is safe for concurrent use, and works in synctest
// bubbles, where its latencies take virtual time.
type Fake[Obj any] struct {
	cfg FakeConfig[Obj]

	mu         sync.Mutex
	world      map[string]thing[Obj]
	decide     func(Operation) Fault
	ready      bool // Init has succeeded
	log        []*call
	inHand     map[*call]bool
	times      map[string]int    // operations by kind and key
	newest     map[string]uint64 // versions of the last Updates
	yielded    map[string]uint64 // versions that Observe has yielded since
	peak       int
	violations []string
}

// thing is the object with a key.
type thing[Obj any] struct {
	obj     Obj
	spec    string
	foreign bool
}

// The specs of objects that match no row.
const (
	halfSpec    = "half-made"
	corruptSpec = "corrupt"
)

// NewFake returns a fake with an empty world.
func NewFake[Obj any](cfg FakeConfig[Obj]) *Fake[Obj] {
	return &Fake[Obj]{
		cfg: cfg, world: map[string]thing[Obj]{}, inHand: map[*call]bool{}, times: map[string]int{},
		newest: map[string]uint64{}, yielded: map[string]uint64{},
	}
}

var (
	_ reconciler.Target[int]   = (*Fake[int])(nil)
	_ reconciler.Observer[int] = (*Fake[int])(nil)
	_ reconciler.Differ[int]   = (*Fake[int])(nil)
)

// Init implements reconciler.Target.
func (f *Fake[Obj]) Init(ctx context.Context) error {
	_, err := f.do(ctx, Operation{Kind: Init}, func(c *call, _ Effect) (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if c.dead {
			return false, errDead
		}
		f.ready = true
		return false, nil
	})
	return err
}

// Update implements reconciler.Target.
func (f *Fake[Obj]) Update(ctx context.Context, txn statedb.ReadTxn, obj Obj) (reconciler.Result, error) {
	op := Operation{Kind: Update, Key: f.cfg.Key(obj), Spec: f.cfg.Spec(obj)}
	f.check(op, txn, obj)
	return f.do(ctx, op, func(c *call, how Effect) (bool, error) { return f.update(ctx, c, how, obj) })
}

// update makes a thing in two steps, and checks the context in between.
func (f *Fake[Obj]) update(ctx context.Context, c *call, how Effect, obj Obj) (changed bool, err error) {
	key, spec := f.cfg.Key(obj), f.cfg.Spec(obj)
	if changed, err = f.set(c, key, thing[Obj]{obj: obj, spec: halfSpec}, spec); !changed || err != nil {
		return changed, err
	}
	if how == Half {
		return true, errHalf
	}
	if err := c.wait(ctx, 0); err != nil {
		return true, err
	}
	return f.set(c, key, thing[Obj]{obj: obj, spec: spec}, spec)
}

// set puts a thing into the world, unless it already has the desired spec.
func (f *Fake[Obj]) set(c *call, key string, made thing[Obj], want string) (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	is, there := f.world[key]
	switch {
	case c.dead:
		return false, errDead
	case there && is.foreign:
		return false, fmt.Errorf("%s: %w", key, errForeign)
	case there && is.spec == want:
		return false, nil
	}
	f.world[key] = made
	return true, nil
}

// Delete implements reconciler.Target.
func (f *Fake[Obj]) Delete(ctx context.Context, txn statedb.ReadTxn, obj Obj) error {
	op := Operation{Kind: Delete, Key: f.cfg.Key(obj), Spec: f.cfg.Spec(obj)}
	f.check(op, txn, obj)
	_, err := f.do(ctx, op, func(c *call, how Effect) (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		is, there := f.world[op.Key]
		switch {
		case c.dead:
			return false, errDead
		case !there || is.foreign:
			return false, nil
		case how == Half:
			is.spec = halfSpec
			f.world[op.Key] = is
			return true, errHalf
		}
		delete(f.world, op.Key)
		return true, nil
	})
	return err
}

// Prune implements reconciler.Target. Calling it is a violation, because the fake can
// observe. See [Fake.Pruning].
func (f *Fake[Obj]) Prune(context.Context, statedb.ReadTxn, iter.Seq2[Obj, statedb.Revision]) (int, error) {
	f.violated("prune of a target that can observe")
	return 0, errors.ErrUnsupported
}

func (f *Fake[Obj]) prune(ctx context.Context, txn statedb.ReadTxn, desired iter.Seq2[Obj, statedb.Revision]) (pruned int, err error) {
	var none Obj
	op := Operation{Kind: Prune}
	f.check(op, txn, none)
	wanted := map[string]bool{}
	for obj := range desired {
		wanted[f.cfg.Key(obj)] = true
	}
	_, err = f.do(ctx, op, func(c *call, how Effect) (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if c.dead {
			return false, errDead
		}
		for _, key := range slices.Sorted(maps.Keys(f.world)) {
			if wanted[key] || f.world[key].foreign {
				continue
			}
			delete(f.world, key)
			if pruned++; how == Half {
				return true, errHalf
			}
		}
		return pruned > 0, nil
	})
	return pruned, err
}

// Observe implements reconciler.Observer. It yields the objects that existed before the
// delay of [Fault.After], ordered by key.
func (f *Fake[Obj]) Observe(ctx context.Context) iter.Seq2[Obj, error] {
	return func(yield func(Obj, error) bool) {
		var found []Obj
		_, err := f.do(ctx, Operation{Kind: Observe}, func(_ *call, how Effect) (bool, error) {
			found = f.ours()
			if how == Half {
				found = found[:len(found)/2]
				return false, errHalf
			}
			return false, nil
		})
		for _, obj := range found {
			if !yield(obj, nil) {
				return
			}
		}
		if err != nil {
			var none Obj
			yield(none, err)
		}
	}
}

func (f *Fake[Obj]) ours() []Obj {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []Obj
	for _, key := range slices.Sorted(maps.Keys(f.world)) {
		is := f.world[key]
		if is.foreign {
			continue
		}
		found = append(found, is.obj)
		if f.cfg.Version != nil {
			f.yielded[key] = f.cfg.Version(is.obj)
		}
	}
	return found
}

// Diff implements reconciler.Differ. The only field is "spec".
func (f *Fake[Obj]) Diff(ctx context.Context, _ statedb.ReadTxn, obj Obj) (changes []reconciler.Change, err error) {
	op := Operation{Kind: Diff, Key: f.cfg.Key(obj), Spec: f.cfg.Spec(obj)}
	_, err = f.do(ctx, op, func(*call, Effect) (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		is, there := f.world[op.Key]
		if is.foreign {
			return false, fmt.Errorf("%s: %w", op.Key, errForeign)
		}
		if !there || is.spec != op.Spec {
			changes = []reconciler.Change{{Field: "spec", Is: is.spec, Want: op.Spec}}
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	return changes, nil
}

// do runs an operation with its fault. effect is called without the lock.
func (f *Fake[Obj]) do(ctx context.Context, op Operation, effect func(*call, Effect) (bool, error)) (result reconciler.Result, err error) {
	c := f.begin(op)
	outcome := "goexit" // unless the operation returns or panics
	defer func() { f.end(c, outcome) }()
	result.Changed, err = c.run(ctx, effect)
	if c.reached && !errors.Is(err, errDead) {
		switch {
		case c.fault.Panic != nil:
			outcome = fmt.Sprintf("panic: %v", c.fault.Panic)
			panic(c.fault.Panic)
		case c.fault.Goexit:
			runtime.Goexit()
		case c.fault.Err != nil:
			err = c.fault.Err
		}
	}
	result.Again = c.fault.Again
	outcome = outcomeOf(result, err)
	return result, err
}

// run runs an operation, except for the failure of its fault.
func (c *call) run(ctx context.Context, effect func(*call, Effect) (bool, error)) (changed bool, err error) {
	if err := c.stay(); err != nil {
		return false, err
	}
	if err := c.wait(ctx, c.fault.Before); err != nil {
		return false, err
	}
	c.reached = true
	if how, does := c.fault.effect(); does {
		changed, err = effect(c, how)
	}
	if err == nil && c.fault.After > 0 {
		err = c.wait(ctx, c.fault.After)
	}
	return changed, err
}

// begin logs an operation and decides its fault.
func (f *Fake[Obj]) begin(op Operation) *call {
	f.mu.Lock()
	decide := f.decide
	c := f.enterLocked(op)
	op = c.Operation
	f.mu.Unlock()
	if decide == nil {
		return c
	}
	fault := decide(op)
	f.mu.Lock()
	defer f.mu.Unlock()
	c.fault = fault
	return c
}

func (f *Fake[Obj]) enterLocked(op Operation) *call {
	count := string(op.Kind) + " " + op.Key
	f.times[count]++
	op.Nth, op.Began = f.times[count], time.Now()
	if !f.ready && op.Kind != Init {
		f.violatedLocked("%v before Init has succeeded", op)
	}
	for other := range f.inHand {
		if op.excludes(other.Operation) {
			f.violatedLocked("%v while %v is running", op, other.Operation)
		}
	}
	c := &call{Operation: op, gone: make(chan struct{}), released: make(chan struct{})}
	f.log = append(f.log, c)
	f.inHand[c] = true
	f.peak = max(f.peak, len(f.inHand))
	return c
}

func (f *Fake[Obj]) end(c *call, outcome string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.dead {
		return // Crash has logged its end
	}
	c.Ended, c.Outcome = time.Now(), outcome
	delete(f.inHand, c)
}
