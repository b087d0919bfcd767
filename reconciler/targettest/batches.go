package targettest

import (
	"context"
	"fmt"
	"slices"

	"github.com/statehive/statehive/reconciler"
)

// batchUpdates brings all rows about in one go.
func batchUpdates[Obj any](s *session[Obj]) {
	if !s.batches() {
		return
	}
	for range 2 { // the second time, what the deletes have left would be seen
		s.wantBatch(s.Rows, true, "it was absent")
		s.wantBatch(s.Rows, false, "the last UpdateBatch succeeded")
		for _, row := range s.Rows {
			for _, variant := range s.variantsOf(row) {
				s.wantBatch([]Obj{variant}, true, "the variant differs from what is there")
				s.update(row)
			}
		}
		s.wantBatch(slices.Collect(s.halves(1)), false, "all of them are there")
		for _, row := range s.Rows {
			s.wantUpdate(row, false, "UpdateBatch has just made it")
			s.wantDiff(row, false, "UpdateBatch has just made it")
		}
		s.deleteBatch(s.Rows)
	}
}

// batchDeletes removes all rows in one go, among them some that are absent.
func batchDeletes[Obj any](s *session[Obj]) {
	if !s.batches() {
		return
	}
	for skip := range 2 {
		for row := range s.halves(skip) {
			s.update(row)
		}
		s.deleteBatch(s.Rows)
		s.deleteBatch(s.Rows)
		for _, row := range s.Rows {
			s.wantGone(row)
		}
	}
}

// batchRefusal puts a row that cannot be between the others.
func batchRefusal[Obj any](s *session[Obj]) {
	if !s.batches() {
		return
	}
	for _, bad := range s.Invalid {
		rows := slices.Insert(slices.Clone(s.Rows), len(s.Rows)/2, bad)
		results := s.updateBatch(s.t.Context(), rows)
		for i, result := range results {
			switch isBad := i == len(s.Rows)/2; {
			case isBad && !isTerminal(result.Err):
				s.t.Errorf("UpdateBatch has the outcome %v for the row %s, which cannot be, expected a terminal error", result.Err, s.Key(rows[i]))
			case !isBad && result.Err != nil:
				s.t.Fatalf("UpdateBatch fails for %s: %v; expected only %s to fail, which cannot be", s.Key(rows[i]), result.Err, s.Key(bad))
			case !isBad:
				s.present[s.Key(rows[i])] = true
			}
		}
		s.wantObserved()
		for _, row := range s.Rows {
			s.wantUpdate(row, false, "UpdateBatch says that it has made it")
		}
		s.deleteBatch(slices.Insert(slices.Clone(s.Rows), len(s.Rows)/2, bad))
	}
}

func batchEnded[Obj any](s *session[Obj]) {
	if !s.batches() {
		return
	}
	for i, result := range s.updateBatch(ended(s), s.Rows) {
		if result.Err == nil {
			s.t.Errorf("UpdateBatch succeeds for %s with a context that has ended, expected an error", s.Key(s.Rows[i]))
		}
	}
	s.wantBatch(s.Rows, true, "with a context that had ended nothing was to be done")
	for i, err := range s.tryDeleteBatch(ended(s), s.Rows) {
		if err == nil {
			s.t.Errorf("DeleteBatch succeeds for %s with a context that has ended, expected an error", s.Key(s.Rows[i]))
		}
	}
	s.wantBatch(s.Rows, false, "with a context that had ended nothing was to be deleted")
}

// batches says whether the target takes rows together.
func (s *session[Obj]) batches() bool {
	_, ok := s.target.(reconciler.BatchTarget[Obj])
	return ok
}

// halves yields each other row.
func (s *session[Obj]) halves(skip int) func(yield func(Obj) bool) {
	return func(yield func(Obj) bool) {
		for i := skip; i < len(s.Rows); i += 2 {
			if !yield(s.Rows[i]) {
				return
			}
		}
	}
}

// updateBatch brings rows about and returns an outcome for each.
func (s *session[Obj]) updateBatch(ctx context.Context, rows []Obj) (results []reconciler.BatchResult) {
	s.t.Helper()
	s.must("UpdateBatch", func() error {
		results = s.target.(reconciler.BatchTarget[Obj]).UpdateBatch(ctx, s.Snapshot(), slices.Clone(rows))
		return outcomes(len(results), len(rows))
	})
	return results
}

// outcomes checks how many there are.
func outcomes(are, want int) error {
	if are != want {
		return fmt.Errorf("%d outcomes of %d rows, expected one of each", are, want)
	}
	return nil
}

func (s *session[Obj]) wantBatch(rows []Obj, changed bool, why string) {
	s.t.Helper()
	for i, result := range s.updateBatch(s.t.Context(), rows) {
		key := s.Key(rows[i])
		switch {
		case result.Err != nil:
			s.t.Fatalf("UpdateBatch fails for %s: %v", key, result.Err)
		case s.Holds != nil && !s.Holds(s.t, rows[i]):
			s.t.Fatalf("after UpdateBatch with %s Contract.Holds is false: the world is not as the row says", key)
		case result.Result.Changed != changed:
			s.t.Fatalf("UpdateBatch has Changed = %v for %s, expected %v: %s", result.Result.Changed, key, changed, why)
		}
		s.present[key] = true
	}
	s.wantObserved()
}

func (s *session[Obj]) tryDeleteBatch(ctx context.Context, rows []Obj) (errs []error) {
	s.t.Helper()
	s.must("DeleteBatch", func() error {
		errs = s.target.(reconciler.BatchTarget[Obj]).DeleteBatch(ctx, s.Snapshot(), slices.Clone(rows))
		return outcomes(len(errs), len(rows))
	})
	return errs
}

func (s *session[Obj]) deleteBatch(rows []Obj) {
	s.t.Helper()
	for i, err := range s.tryDeleteBatch(s.t.Context(), rows) {
		if err != nil {
			s.t.Fatalf("DeleteBatch fails for %s: %v", s.Key(rows[i]), err)
		}
		delete(s.present, s.Key(rows[i]))
	}
	s.wantObserved()
}
