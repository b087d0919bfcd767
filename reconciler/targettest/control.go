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

// Will sets how operations go from now on; nil: they succeed at once. decide is
// called at the begin of each and may be called by several goroutines at once.
// See [Random].
func (f *Fake[Obj]) Will(decide func(Operation) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide = decide
}

// Release lets stuck operations on a key go on that are in hand now; for those of
// Init, Prune and Observe the key is empty.
func (f *Fake[Obj]) Release(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.inHand {
		if c.fault.Stuck && c.Key == key && !isClosed(c.released) {
			close(c.released)
		}
	}
}

// Crash makes it as if the process had died: what operations in hand have done
// stays, nothing more of them has an effect, and they return with an error. The
// world is as it was; the next operation has to be Init.
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

// Put makes what a row stands for, as the fake would, behind its caller's back.
func (f *Fake[Obj]) Put(obj Obj) { f.put(thing[Obj]{obj: obj, spec: f.cfg.Spec(obj)}) }

// PutForeign makes what a row stands for as somebody else would: it is not ours.
func (f *Fake[Obj]) PutForeign(obj Obj) {
	f.put(thing[Obj]{obj: obj, spec: f.cfg.Spec(obj), foreign: true})
}

func (f *Fake[Obj]) put(made thing[Obj]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world[f.cfg.Key(made.obj)] = made
}

// Corrupt makes what has a key be as no row wants it. It does nothing if there is
// nothing.
func (f *Fake[Obj]) Corrupt(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is, there := f.world[key]; there {
		is.spec = corruptSpec
		f.world[key] = is
	}
}

// Remove removes what has a key, whoever made it.
func (f *Fake[Obj]) Remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.world, key)
}

// State returns the specs by key of all that is there and ours.
func (f *Fake[Obj]) State() map[string]string {
	return f.specs(func(is thing[Obj]) bool { return !is.foreign })
}

// Foreign returns the specs by key of what others made.
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

// Log returns the operations so far, in the order in which they began; those of
// one instant in the order of their keys.
func (f *Fake[Obj]) Log() []Operation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.logLocked()
}

// TakeLog is Log that forgets what it returns.
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

// InHand returns the operations that have not ended.
func (f *Fake[Obj]) InHand() []Operation {
	f.mu.Lock()
	defer f.mu.Unlock()
	var operations []Operation
	for c := range f.inHand {
		operations = append(operations, c.Operation)
	}
	return sorted(operations)
}

// Peak returns how many operations have been in hand at one time.
func (f *Fake[Obj]) Peak() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peak
}

// Violations returns what callers have done that no caller may: an operation
// before Init has succeeded, two on one key at a time, one beside Prune, Prune
// of a target that can observe, a row older than one before it, and what
// [FakeConfig.Promise] has found.
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

// check holds the caller to what the configuration says about rows.
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

// Observing returns the fake as a target that is no differ.
func (f *Fake[Obj]) Observing() interface {
	reconciler.Target[Obj]
	reconciler.Observer[Obj]
} {
	return observing[Obj]{f, f}
}

// Pruning returns the fake as a target that can neither observe nor diff, and is
// pruned.
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
