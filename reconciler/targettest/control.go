package targettest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Will sets the function that decides the fault of each operation from now on. If it
// is nil, operations succeed immediately. decide is called when an operation begins,
// and may be called by several goroutines concurrently. See [Random].
func (f *Fake[Obj]) Will(decide func(Operation) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide = decide
}

// Release lets the running stuck operations on a key go on. The key of Init, Prune
// and Observe is "".
func (f *Fake[Obj]) Release(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.inHand {
		if c.fault.Stuck && c.Key == key && !isClosed(c.released) {
			close(c.released)
		}
	}
}

// Crash simulates the death of the process. The world stays as it is; running operations
// have no further effect and return an error. The next operation has to be Init.
func (f *Fake[Obj]) Crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.inHand {
		c.dead = true
		c.Ended, c.Outcome = time.Now(), "dead"
		close(c.gone)
	}
	clear(f.inHand)
	f.ready = false
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// Put makes the object of a row behind the caller's back, as if the fake had made it.
func (f *Fake[Obj]) Put(obj Obj) { f.put(thing[Obj]{obj: obj, spec: f.cfg.Spec(obj)}) }

// PutForeign makes the object of a row as a foreign object, which is not the fake's own.
func (f *Fake[Obj]) PutForeign(obj Obj) {
	f.put(thing[Obj]{obj: obj, spec: f.cfg.Spec(obj), foreign: true})
}

func (f *Fake[Obj]) put(made thing[Obj]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world[f.cfg.Key(made.obj)] = made
}

// Corrupt changes the object with a key so that it matches no row. It does nothing if
// there is no such object.
func (f *Fake[Obj]) Corrupt(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is, there := f.world[key]; there {
		is.spec = corruptSpec
		f.world[key] = is
	}
}

// Remove removes the object with a key, whoever made it.
func (f *Fake[Obj]) Remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.world, key)
}

// State returns the specs of the fake's own objects, by key.
func (f *Fake[Obj]) State() map[string]string {
	return f.specs(func(is thing[Obj]) bool { return !is.foreign })
}

// Foreign returns the specs of foreign objects, by key.
func (f *Fake[Obj]) Foreign() map[string]string {
	return f.specs(func(is thing[Obj]) bool { return is.foreign })
}

func (f *Fake[Obj]) specs(which func(thing[Obj]) bool) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	specs := map[string]string{}
	for key, is := range f.world {
		if which(is) {
			specs[key] = is.spec
		}
	}
	return specs
}

// Log returns the operations so far, in the order in which they began. Operations that
// began at the same instant are ordered by key.
func (f *Fake[Obj]) Log() []Operation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.logLocked()
}

// TakeLog returns the operations as Log does, and clears the log.
func (f *Fake[Obj]) TakeLog() []Operation {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.log = nil }()
	return f.logLocked()
}

func (f *Fake[Obj]) logLocked() []Operation {
	log := make([]Operation, len(f.log))
	for i, c := range f.log {
		log[i] = c.Operation
	}
	return sorted(log)
}

// InHand returns the running operations.
func (f *Fake[Obj]) InHand() []Operation {
	f.mu.Lock()
	defer f.mu.Unlock()
	var operations []Operation
	for c := range f.inHand {
		operations = append(operations, c.Operation)
	}
	return sorted(operations)
}

// Peak returns the largest number of operations that have run at the same time.
func (f *Fake[Obj]) Peak() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peak
}

// Violations returns the violations of the contract by callers: an operation before Init
// has succeeded, two concurrent operations on one key, an operation concurrent with
// Prune, Prune of a target that can observe, a row older than the last one for its key,
// and the violations that [FakeConfig.Promise] has found.
func (f *Fake[Obj]) Violations() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}

func (f *Fake[Obj]) violated(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.violatedLocked("%s", what)
}

func (f *Fake[Obj]) violatedLocked(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}

// check records violations of the rules in the configuration.
func (f *Fake[Obj]) check(op Operation, txn statedb.ReadTxn, obj Obj) {
	if f.cfg.Promise != nil {
		if wrong := f.cfg.Promise(op, txn, obj); wrong != "" {
			f.violated(fmt.Sprintf("%v %s", op, wrong))
		}
	}
	if f.cfg.Version == nil || op.Kind == Prune {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	version, newest := f.cfg.Version(obj), f.newest[op.Key]
	seen, yielded := f.yielded[op.Key]
	orphan := op.Kind == Delete && yielded && seen == version
	if version != 0 && version < newest && !orphan {
		f.violatedLocked("%v with a row of version %d, older than the %d of the last update", op, version, newest)
	}
	if op.Kind == Update {
		f.newest[op.Key] = max(version, newest)
		delete(f.yielded, op.Key)
	}
}

// Observing returns the fake as a target that is an observer but not a differ.
func (f *Fake[Obj]) Observing() interface {
	reconciler.Target[Obj]
	reconciler.Observer[Obj]
} {
	return observing[Obj]{f, f}
}

// Pruning returns the fake as a target that is neither an observer nor a differ, and so
// has to be pruned.
func (f *Fake[Obj]) Pruning() reconciler.Target[Obj] { return pruning[Obj]{f, f} }

type observing[Obj any] struct {
	reconciler.Target[Obj]
	reconciler.Observer[Obj]
}

type pruning[Obj any] struct {
	reconciler.Target[Obj]
	fake *Fake[Obj]
}

// Prune implements reconciler.Target.
func (p pruning[Obj]) Prune(ctx context.Context, txn statedb.ReadTxn, desired iter.Seq2[Obj, statedb.Revision]) (int, error) {
	return p.fake.prune(ctx, txn, desired)
}
