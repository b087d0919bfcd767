// Package targettest checks that a target keeps the contract of
// [reconciler.Target], on whatever the target works on.
//
//	func TestContract(t *testing.T) {
//		targettest.Run(t, targettest.Contract[Row]{Target: target, Key: Row.Name, Rows: rows})
//	}
//
// [Run] makes and removes real things: run it where that does no harm. A target
// that is also a [reconciler.Observer] or a [reconciler.Differ] is checked as
// such; Prune is checked of one that is no observer.
package targettest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Contract is a target and the rows to try it with.
type Contract[Obj any] struct {
	// Target to be checked. Run calls its Init.
	Target reconciler.Target[Obj]
	// Key identifies a row, of Rows and of what the target observes.
	Key func(Obj) string
	// Rows have different keys and can all be brought about at once, in their
	// order, and removed in the opposite one. None of them is there at the start.
	Rows []Obj
	// Variants, if any, are other rows with the keys of some of Rows: what those
	// may be changed to.
	Variants []Obj
	// Disturb, if not nil, changes or removes what a row stands for behind the
	// target's back; the target is to find and repair it.
	Disturb func(t *testing.T, obj Obj)
}

// Run checks the target. At the end all rows are deleted.
func Run[Obj any](t *testing.T, c Contract[Obj]) {
	t.Helper()
	k := &kit[Obj]{Contract: c, txn: statedb.New().ReadTxn()}
	if len(c.Rows) == 0 {
		t.Fatal("Contract.Rows is empty: nothing would be checked")
	}
	if err := c.Target.Init(t.Context()); err != nil {
		t.Fatalf("Init: %v", err)
	}
	t.Cleanup(func() { k.deleteAll(t) })
	steps := []struct {
		name  string
		check func(*testing.T)
	}{
		{"delete of what is absent succeeds", k.deleteAbsent},
		{"diff shows what is to be made", k.diffIsDue},
		{"an ended context ends operations", k.endedContext},
		{"update makes it", k.updateChanges},
		{"update again changes nothing", k.inSync},
		{"observe yields it once", k.observedOnce},
		{"a changed row is brought about", k.variants},
		{"a disturbance is found and repaired", k.disturbed},
		{"init may be repeated", k.initAgain},
		{"prune removes what is not desired", k.prune},
		{"delete removes it", k.deleteRemoves},
		{"delete again succeeds", k.deleteAbsent},
	}
	for _, step := range steps {
		if !t.Run(step.name, step.check) {
			return // what follows builds on it
		}
	}
}

type kit[Obj any] struct {
	Contract[Obj]
	txn statedb.ReadTxn
}

func (k *kit[Obj]) deleteAbsent(t *testing.T) {
	for _, row := range k.Rows {
		if err := k.Target.Delete(t.Context(), k.txn, row); err != nil {
			t.Errorf("Delete(%s), which is absent: %v", k.Key(row), err)
		}
	}
}

// diffIsDue looks at the first row only: those that follow may need it.
func (k *kit[Obj]) diffIsDue(t *testing.T) { k.wantDiff(t, k.Rows[0], true) }

// wantDiff is satisfied when the target cannot tell.
func (k *kit[Obj]) wantDiff(t *testing.T, row Obj, want bool) {
	t.Helper()
	differ, ok := k.Target.(reconciler.Differ[Obj])
	if !ok {
		return
	}
	changes, err := differ.Diff(t.Context(), k.txn, row)
	if err != nil {
		t.Errorf("Diff(%s): %v", k.Key(row), err)
	}
	if (len(changes) > 0) != want {
		t.Errorf("Diff(%s) = %v, expected changes: %v", k.Key(row), changes, want)
	}
}

func (k *kit[Obj]) endedContext(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("ended by the contract kit"))
	if _, err := k.Target.Update(ended, k.txn, k.Rows[0]); err == nil {
		t.Errorf("Update(%s) with an ended context succeeded", k.Key(k.Rows[0]))
	}
	k.wantDiff(t, k.Rows[0], true)
}

func (k *kit[Obj]) update(t *testing.T, row Obj, changed bool) {
	t.Helper()
	result, err := k.Target.Update(t.Context(), k.txn, row)
	if err != nil {
		t.Fatalf("Update(%s): %v", k.Key(row), err)
	}
	if result.Changed != changed {
		t.Errorf("Update(%s).Changed = %v, expected %v", k.Key(row), result.Changed, changed)
	}
}

func (k *kit[Obj]) updateChanges(t *testing.T) {
	for _, row := range k.Rows {
		k.update(t, row, true)
		k.wantDiff(t, row, false)
	}
}

func (k *kit[Obj]) inSync(t *testing.T) {
	for _, row := range k.Rows {
		k.wantDiff(t, row, false)
		k.update(t, row, false)
	}
}

// observed returns how often each key is observed; ok is false when the target
// cannot tell.
func (k *kit[Obj]) observed(t *testing.T) (times map[string]int, ok bool) {
	t.Helper()
	observer, ok := k.Target.(reconciler.Observer[Obj])
	if !ok {
		return nil, false
	}
	times = map[string]int{}
	for row, err := range observer.Observe(t.Context()) {
		if err != nil {
			t.Fatalf("Observe: %v", err)
		}
		times[k.Key(row)]++
	}
	return times, true
}

func (k *kit[Obj]) observedOnce(t *testing.T) {
	times, ok := k.observed(t)
	if !ok {
		return
	}
	for _, row := range k.Rows {
		if n := times[k.Key(row)]; n != 1 {
			t.Errorf("Observe yields %s %d times, expected once; it yields %v", k.Key(row), n, times)
		}
	}
}

func (k *kit[Obj]) variants(t *testing.T) {
	for _, row := range k.Variants {
		k.wantDiff(t, row, true)
		k.update(t, row, true)
		k.wantDiff(t, row, false)
		k.update(t, row, false)
	}
	for _, row := range k.Rows {
		if slices.ContainsFunc(k.Variants, func(v Obj) bool { return k.Key(v) == k.Key(row) }) {
			k.update(t, row, true)
		}
	}
	k.observedOnce(t)
	k.inSync(t)
}

func (k *kit[Obj]) disturbed(t *testing.T) {
	if k.Disturb == nil {
		return
	}
	for _, row := range k.Rows {
		k.Disturb(t, row)
		k.wantDiff(t, row, true)
		k.update(t, row, true)
		k.wantDiff(t, row, false)
	}
}

func (k *kit[Obj]) initAgain(t *testing.T) {
	if err := k.Target.Init(t.Context()); err != nil {
		t.Fatalf("Init, repeated: %v", err)
	}
	k.observedOnce(t)
}

// prune leaves out the last row, which the others do not need. It is not for
// targets that can observe: those are never pruned.
func (k *kit[Obj]) prune(t *testing.T) {
	if _, ok := k.Target.(reconciler.Observer[Obj]); ok {
		return
	}
	last := len(k.Rows) - 1
	desired := func(yield func(Obj, statedb.Revision) bool) {
		for i, row := range k.Rows[:last] {
			if !yield(row, statedb.Revision(i+1)) {
				return
			}
		}
	}
	for _, want := range []int{1, 0} {
		if pruned, err := k.Target.Prune(t.Context(), k.txn, desired); err != nil || pruned != want {
			t.Errorf("Prune with all rows desired but %s = %d, %v, expected %d", k.Key(k.Rows[last]), pruned, err, want)
		}
	}
	k.wantDiff(t, k.Rows[last], true)
	k.update(t, k.Rows[last], true)
	k.inSync(t)
}

func (k *kit[Obj]) deleteRemoves(t *testing.T) {
	for _, row := range slices.Backward(k.Rows) {
		if err := k.Target.Delete(t.Context(), k.txn, row); err != nil {
			t.Errorf("Delete(%s): %v", k.Key(row), err)
		}
		if times, ok := k.observed(t); ok && times[k.Key(row)] != 0 {
			t.Errorf("Observe still yields %s after its Delete", k.Key(row))
		}
	}
	k.wantDiff(t, k.Rows[0], true)
}

// deleteAll tidies up, also after a failure.
func (k *kit[Obj]) deleteAll(t *testing.T) {
	var failures []error
	for _, row := range slices.Backward(k.Rows) {
		// The test's own context has ended by now.
		if err := k.Target.Delete(context.WithoutCancel(t.Context()), k.txn, row); err != nil {
			failures = append(failures, fmt.Errorf("Delete(%s): %w", k.Key(row), err))
		}
	}
	if err := errors.Join(failures...); err != nil {
		t.Errorf("tidy up: %v", err)
	}
}
