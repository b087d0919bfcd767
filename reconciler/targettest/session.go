package targettest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// session is the check of one rule. Its methods end the test when an operation
// fails that must succeed.
type session[Obj any] struct {
	*kit[Obj]
	t       *testing.T
	target  reconciler.Target[Obj]
	present map[string]bool // the keys of the rows that were applied and not deleted
}

// open opens and initializes a target as a new process does.
func (s *session[Obj]) open() {
	s.t.Helper()
	s.target = s.Open(s.t)
	s.must("Init", s.init)
}

func (s *session[Obj]) init() error { return s.target.Init(s.t.Context()) }

// must runs an operation that must succeed.
func (s *session[Obj]) must(what string, op func() error) {
	s.t.Helper()
	if err := s.do(what, op); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// do runs an operation, which has to return within Patience.
func (s *session[Obj]) do(what string, op func() error) (err error) {
	s.t.Helper()
	e := s.await(what, func() { err = op() }, nil, nil)
	if !e.returned {
		s.t.Fatalf("%s ended its goroutine by runtime.Goexit", what)
	}
	return err
}

// await runs an operation on a goroutine of its own, and calls meddle whenever it
// receives from asked. It ends the test if the operation panics or takes too long.
func (s *session[Obj]) await(what string, op func(), asked <-chan struct{}, meddle func()) ending {
	s.t.Helper()
	ended := make(chan ending, 1)
	go operate(op, ended)
	timer := time.NewTimer(s.Patience)
	defer timer.Stop()
	for {
		select {
		case e := <-ended:
			if e.panicked != nil {
				s.t.Fatalf("%s panics: %v\n%s", what, e.panicked, e.stack)
			}
			return e
		case <-asked:
			meddle()
		case <-timer.C:
			s.t.Fatalf("%s has not returned within %v", what, s.Patience)
		}
	}
}

func (s *session[Obj]) tryUpdate(ctx context.Context, row Obj) (result reconciler.Result, err error) {
	s.t.Helper()
	err = s.do("Update("+s.Key(row)+")", func() (err error) {
		result, err = s.target.Update(ctx, s.Snapshot(), row)
		return err
	})
	return result, err
}

// update applies a row.
func (s *session[Obj]) update(row Obj) (changed bool) {
	s.t.Helper()
	result, err := s.tryUpdate(s.t.Context(), row)
	if err != nil {
		s.t.Fatalf("Update(%s): %v", s.Key(row), err)
	}
	if result.Again < 0 {
		s.t.Errorf("Update(%s).Again = %v, expected no time in the past", s.Key(row), result.Again)
	}
	s.present[s.Key(row)] = true
	if s.Holds != nil && !s.Holds(s.t, row) {
		s.t.Fatalf("after Update(%s) Contract.Holds is false: the world does not match the row", s.Key(row))
	}
	return result.Changed
}

func (s *session[Obj]) wantUpdate(row Obj, changed bool, why string) {
	s.t.Helper()
	if got := s.update(row); got != changed {
		s.t.Fatalf("Update(%s).Changed = %v, expected %v: %s", s.Key(row), got, changed, why)
	}
}

// converge applies a row, and checks that Update, Diff and Observe then agree that it is applied.
func (s *session[Obj]) converge(row Obj) {
	s.t.Helper()
	s.update(row)
	s.wantUpdate(row, false, "the last Update succeeded")
	s.wantDiff(row, false, "the last Update succeeded")
	s.wantObserved()
}

func (s *session[Obj]) updateAll() {
	s.t.Helper()
	for _, row := range s.Rows {
		s.update(row)
	}
}

func (s *session[Obj]) tryDelete(ctx context.Context, row Obj) error {
	s.t.Helper()
	return s.do("Delete("+s.Key(row)+")", func() error { return s.target.Delete(ctx, s.Snapshot(), row) })
}

func (s *session[Obj]) delete(row Obj) {
	s.t.Helper()
	if err := s.tryDelete(s.t.Context(), row); err != nil {
		s.t.Fatalf("Delete(%s): %v", s.Key(row), err)
	}
	delete(s.present, s.Key(row))
}

// wantGone checks that nothing is left of a row, by applying it again.
func (s *session[Obj]) wantGone(row Obj) {
	s.t.Helper()
	if s.Holds != nil && s.Holds(s.t, row) {
		s.t.Fatalf("after Delete(%s) Contract.Holds is true: the world still matches the row", s.Key(row))
	}
	s.wantObserved()
	s.wantUpdate(row, true, "Delete should have removed it")
	s.delete(row)
}

// diff returns what Update would change; ok is false if the target is not a Differ.
func (s *session[Obj]) diff(ctx context.Context, row Obj) (changes []reconciler.Change, ok bool, err error) {
	s.t.Helper()
	differ, ok := s.target.(reconciler.Differ[Obj])
	if !ok {
		return nil, false, nil
	}
	err = s.do("Diff("+s.Key(row)+")", func() (err error) {
		changes, err = differ.Diff(ctx, s.Snapshot(), row)
		return err
	})
	return changes, true, err
}

func (s *session[Obj]) wantDiff(row Obj, due bool, why string) {
	s.t.Helper()
	changes, ok, err := s.diff(s.t.Context(), row)
	switch {
	case !ok:
	case err != nil:
		s.t.Fatalf("Diff(%s): %v", s.Key(row), err)
	case due && len(changes) == 0:
		s.t.Fatalf("Diff(%s) reports no change, expected some: %s", s.Key(row), why)
	case !due && len(changes) > 0:
		s.t.Fatalf("Diff(%s) = %v, expected no change: %s", s.Key(row), changes, why)
	}
}

// observe returns the rows that the target observes; ok is false if it is not an Observer.
func (s *session[Obj]) observe(ctx context.Context) (rows []Obj, ok bool, err error) {
	s.t.Helper()
	observer, ok := s.target.(reconciler.Observer[Obj])
	if !ok {
		return nil, false, nil
	}
	err = s.do("Observe", func() error {
		for row, err := range observer.Observe(ctx) {
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, true, err
}

func (s *session[Obj]) mustObserve() (rows []Obj, ok bool) {
	s.t.Helper()
	rows, ok, err := s.observe(s.t.Context())
	if err != nil {
		s.t.Fatalf("Observe: %v", err)
	}
	return rows, ok
}

// wantObserved checks that Observe yields each present row once and nothing else.
func (s *session[Obj]) wantObserved() {
	s.t.Helper()
	rows, ok := s.mustObserve()
	if !ok {
		return
	}
	if got, want := s.keysOf(rows), slices.Sorted(maps.Keys(s.present)); !slices.Equal(got, want) {
		s.t.Fatalf("Observe yields %q, expected %q: each row that was updated and not deleted, once", got, want)
	}
}

func (s *session[Obj]) keysOf(rows []Obj) []string {
	keys := make([]string, len(rows))
	for i, row := range rows {
		keys[i] = s.Key(row)
	}
	slices.Sort(keys)
	return keys
}

// tidyUp deletes all rows. After a failure it does what it can.
func (s *session[Obj]) tidyUp() {
	s.t.Helper()
	if s.t.Failed() {
		s.tidyUpAfterFailure()
		return
	}
	for _, row := range slices.Backward(s.Rows) {
		s.delete(row)
	}
}

// tidyUpAfterFailure deletes all rows and ignores errors, because the failure has been reported.
func (s *session[Obj]) tidyUpAfterFailure() {
	ended := make(chan ending, 1)
	go operate(func() {
		for _, row := range slices.Backward(s.Rows) {
			if s.target.Delete(s.t.Context(), s.Snapshot(), row) != nil {
				continue // try to delete the others
			}
		}
	}, ended)
	select {
	case <-ended:
	case <-time.After(s.Patience):
	}
	if s.Virtual {
		// An operation that hangs only for a while may end before the bubble does.
		<-time.After(24 * time.Hour)
	}
}
