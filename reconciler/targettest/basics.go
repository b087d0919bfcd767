package targettest

import (
	"context"
	"fmt"
	"slices"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func deleteAbsent[Obj any](s *session[Obj], row Obj) { s.delete(row) }

func updateChanges[Obj any](s *session[Obj], row Obj) { s.wantUpdate(row, true, "it was absent") }

func deleteRemoves[Obj any](s *session[Obj], row Obj) {
	s.update(row)
	s.delete(row)
	if s.Holds != nil && s.Holds(s.t, row) {
		s.t.Errorf("after Delete(%s) Contract.Holds is true: the world still matches the row", s.Key(row))
	}
	s.wantUpdate(row, true, "it was deleted")
}

func deleteAgain[Obj any](s *session[Obj], row Obj) {
	s.update(row)
	s.delete(row)
	s.delete(row)
}

func updateAgain[Obj any](s *session[Obj], row Obj) {
	s.update(row)
	for range 2 {
		s.wantUpdate(row, false, "the last Update succeeded")
	}
}

func initAgain[Obj any](s *session[Obj]) {
	s.updateAll()
	s.must("Init, repeated", s.init)
	for _, row := range s.Rows {
		s.wantUpdate(row, false, "Init was repeated, which must change nothing")
	}
}

func observeAgrees[Obj any](s *session[Obj]) {
	s.wantObserved()
	for _, row := range s.Rows {
		s.update(row)
		s.wantObserved()
	}
	for _, row := range slices.Backward(s.Rows) {
		s.delete(row)
		s.wantObserved()
	}
}

func observeLeftEarly[Obj any](s *session[Obj]) {
	observer, ok := s.target.(reconciler.Observer[Obj])
	if !ok {
		return
	}
	s.updateAll()
	for stop := range len(s.Rows) {
		yielded := 0
		s.must("Observe, stopped early", func() error {
			observer.Observe(s.t.Context())(func(Obj, error) bool {
				yielded++
				return yielded <= stop
			})
			return nil
		})
		if yielded != stop+1 {
			s.t.Fatalf("Observe yields %d times, although the loop ended after yield %d", yielded, stop+1)
		}
		s.wantObserved()
	}
	s.wantUpdate(s.Rows[0], false, "only an Observe that was stopped early has run since")
}

func deleteObserved[Obj any](s *session[Obj]) {
	s.updateAll()
	observed, ok := s.mustObserve()
	if !ok {
		return
	}
	for _, row := range observed {
		s.delete(row)
		s.wantObserved()
	}
	for _, row := range s.Rows {
		s.wantUpdate(row, true, "what Observe yielded for it was deleted")
	}
}

func diffWritesNothing[Obj any](s *session[Obj], row Obj) {
	if _, ok := s.target.(reconciler.Differ[Obj]); !ok {
		return
	}
	for range 2 {
		s.mustDiff(row)
		s.wantObserved()
	}
	s.wantUpdate(row, true, "only a Diff has run since")
	for _, variant := range s.variantsOf(row) {
		s.mustDiff(variant)
		s.wantObserved()
		s.wantUpdate(row, false, "only a Diff has run since of a variant")
	}
}

func (s *session[Obj]) mustDiff(row Obj) []reconciler.Change {
	s.t.Helper()
	changes, _, err := s.diff(s.t.Context(), row)
	if err != nil {
		s.t.Fatalf("Diff(%s): %v", s.Key(row), err)
	}
	return changes
}

func diffAgrees[Obj any](s *session[Obj], row Obj) {
	s.wantDiff(row, true, "it is absent")
	s.update(row)
	s.wantDiff(row, false, "Update has just made it")
	for _, variant := range s.variantsOf(row) {
		s.wantDiff(variant, true, "the variant differs from the existing object")
		for _, change := range s.mustDiff(variant) {
			if change.Field == "" || change.Is == change.Want {
				s.t.Errorf("Diff(%s) has %+v, expected a field and two different values", s.Key(row), change)
			}
		}
	}
	s.delete(row)
	s.wantDiff(row, true, "it was deleted")
}

// everyChange changes a row from each of its samples to each other.
func everyChange[Obj any](s *session[Obj], row Obj) {
	samples := s.samplesOf(row)
	for i, from := range samples {
		for j, to := range samples {
			if i == j {
				continue
			}
			s.delete(row)
			s.update(from)
			if i == 0 {
				s.wantUpdate(to, true, fmt.Sprintf("it differs from the previous row: %s", describe(j)))
			}
			s.converge(to)
		}
	}
	s.delete(row)
	s.wantGone(row)
}

// describe names a sample in messages.
func describe(sample int) string {
	if sample == 0 {
		return "the row of Rows"
	}
	return fmt.Sprintf("variant %d of this key", sample)
}

// deleteNewer deletes rows that were changed and deleted before the change was
// applied.
func deleteNewer[Obj any](s *session[Obj], row Obj) {
	for _, variant := range s.variantsOf(row) {
		s.update(row)
		s.delete(variant)
		s.wantGone(row)
	}
}

// prune checks targets that cannot observe. Other targets are never pruned.
func prune[Obj any](s *session[Obj]) {
	if !s.prunes() {
		return
	}
	s.updateAll()
	last := len(s.Rows) - 1
	for _, want := range []int{1, 0} {
		if pruned := s.prune(s.Rows[:last]); pruned != want {
			s.t.Errorf("Prune with all rows desired but %s = %d, expected %d", s.Key(s.Rows[last]), pruned, want)
		}
	}
	for i, row := range s.Rows {
		s.wantUpdate(row, i == last, "Prune should have removed what is not desired and nothing else")
	}
	s.open()
	if pruned := s.prune(nil); pruned != len(s.Rows) {
		s.t.Errorf("Prune by a new process with nothing desired = %d, expected %d", pruned, len(s.Rows))
	}
	for _, row := range s.Rows {
		s.wantUpdate(row, true, "Prune should have removed it")
	}
}

// prunes reports whether the target is pruned.
func (s *session[Obj]) prunes() bool {
	_, observes := s.target.(reconciler.Observer[Obj])
	return !observes
}

func (s *session[Obj]) prune(desired []Obj) (pruned int) {
	s.t.Helper()
	s.must("Prune", func() (err error) {
		pruned, err = s.callPrune(s.t.Context(), desired)
		return err
	})
	return pruned
}

func (s *session[Obj]) callPrune(ctx context.Context, desired []Obj) (pruned int, err error) {
	return s.target.Prune(ctx, s.Snapshot(), func(yield func(Obj, statedb.Revision) bool) {
		for i, row := range desired {
			if !yield(row, statedb.Revision(i+1)) {
				return
			}
		}
	})
}
