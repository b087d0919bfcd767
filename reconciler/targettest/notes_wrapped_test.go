package targettest_test

import (
	"context"
	"sync"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/targettest"
	"github.com/statehive/statehive/statedb"
)

// plain hides what a target can do besides.
type plain struct{ reconciler.Target[row] }

// delegating is a target that works on other goroutines than its caller's.
type delegating struct{ *notes }

func (d delegating) Update(ctx context.Context, txn statedb.ReadTxn, obj row) (result reconciler.Result, err error) {
	var worker sync.WaitGroup
	worker.Go(func() { result, err = d.notes.Update(ctx, txn, obj) })
	worker.Wait()
	return result, err
}

func (d delegating) Delete(ctx context.Context, txn statedb.ReadTxn, obj row) (err error) {
	var worker sync.WaitGroup
	worker.Go(func() { err = d.notes.Delete(ctx, txn, obj) })
	worker.Wait()
	return err
}

func (n *notes) remembersMaking(name string) bool {
	n.mem.Lock()
	defer n.mem.Unlock()
	return n.made[name]
}

// ending is a target that does not end as it should.
type ending struct{ *notes }

func (e ending) Update(ctx context.Context, txn statedb.ReadTxn, obj row) (reconciler.Result, error) {
	if ctx.Err() != nil && e.fault == "at an end update says that it is done" {
		return reconciler.Result{}, nil
	}
	if e.fault == "at an end update leaves its tools" {
		e.record("tool")
		e.put("tool", "x")
		result, err := e.notes.Update(ctx, txn, obj) // where a process may die
		e.remove("tool")
		e.strike("tool")
		return result, err
	}
	return e.notes.Update(ctx, txn, obj)
}

func (e ending) Delete(ctx context.Context, txn statedb.ReadTxn, obj row) error {
	if ctx.Err() != nil && e.fault == "at an end delete says that it is done" {
		return nil
	}
	return e.notes.Delete(ctx, txn, obj)
}

func (e ending) Diff(ctx context.Context, txn statedb.ReadTxn, obj row) ([]reconciler.Change, error) {
	if ctx.Err() != nil && e.fault == "at an end diff guesses" {
		return []reconciler.Change{{Field: "value", Want: obj.value}}, nil
	}
	return e.notes.Diff(ctx, txn, obj)
}

// contract is that of notes with a fault, on a wall of its own.
func contract(fault string, variant func(*notes) reconciler.Target[row]) targettest.Contract[row] {
	w := &wall{notes: map[string]string{}, book: map[string]bool{}}
	return targettest.Contract[row]{
		Open:     func(*testing.T) reconciler.Target[row] { return variant(newNotes(w, fault)) },
		Key:      func(r row) string { return r.name },
		Rows:     []row{{"a", "1"}, {"b", "2"}},
		Variants: []row{{"b", "3"}, {"b", "4"}},
		Invalid:  []row{{"c", ""}},
		Holds: func(_ *testing.T, r row) bool {
			is, there := w.get(r.name)
			return there && is == r.value
		},
		Remove:  func(_ *testing.T, r row) { w.remove(r.name) },
		Disturb: func(_ *testing.T, r row) { w.put(r.name, "disturbed") },
		Foreign: func(t *testing.T) func() bool {
			w.put("other", "x")
			t.Cleanup(func() { w.remove("other") })
			return func() bool {
				is, there := w.get("other")
				return there && is == "x"
			}
		},
		Virtual: true,
	}
}

func whole(n *notes) reconciler.Target[row]    { return n }
func hiding(n *notes) reconciler.Target[row]   { return plain{n} }
func together(n *notes) reconciler.Target[row] { return batching{n} }
