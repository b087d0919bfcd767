package targettest

import (
	"context"
	"fmt"
	"slices"

	"github.com/statehive/statehive/reconciler"
)

// batchUpdates applies all rows in one call.
func batchUpdates[Obj any](s *session[Obj]) {
	if !s.batches() {
		return
	}
	for range 2 { // the second time detects leftovers of the deletes
		s.wantBatch(s.Rows, true, "it was absent")
		s.wantBatch(s.Rows, false, "the last UpdateBatch succeeded")
		for _, row := range s.Rows {
			for _, variant := range s.variantsOf(row) {
				s.wantBatch([]Obj{variant}, true, "the variant differs from the existing object")
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

// batchDeletes removes all rows in one call, including some that are absent.
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
		s.wantAllGone()
	}
}

// batchRefusal applies an invalid row together with all valid rows.
func batchRefusal[Obj any](s *session[Obj]) {
	if !s.batches() {
		return
	}
	for _, bad := range s.Invalid {
		rows := slices.Insert(slices.Clone(s.Rows), len(s.Rows)/2, bad)
		results := s.updateBatch(s.t.Context(), rows)
		for i, result := range results {
			switch isBad := i == len(s.Rows)/2; {
			case isBad && !reconciler.IsTerminal(result.Err):
				s.t.Errorf("UpdateBatch has the outcome %v for the invalid row %s, expected a terminal error", result.Err, s.Key(rows[i]))
			case !isBad && result.Err != nil:
				s.t.Fatalf("UpdateBatch fails for %s: %v; expected only the invalid row %s to fail", s.Key(rows[i]), result.Err, s.Key(bad))
			case !isBad:
				s.present[s.Key(rows[i])] = true
			}
		}
		s.wantObserved()
		for _, row := range s.Rows {
			s.wantUpdate(row, false, "UpdateBatch reported success")
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
			s.t.Errorf("UpdateBatch succeeds for %s with an ended context, expected an error", s.Key(s.Rows[i]))
		}
	}
	s.wantBatch(s.Rows, true, "an operation whose context has ended must do nothing")
	for i, err := range s.tryDeleteBatch(ended(s), s.Rows) {
		if err == nil {
			s.t.Errorf("DeleteBatch succeeds for %s with an ended context, expected an error", s.Key(s.Rows[i]))
		}
	}
	s.wantBatch(s.Rows, false, "a delete whose context has ended must delete nothing")
}

// batchChange is a change that one batch makes to all rows.
type batchChange[Obj any] struct {
	from, to []Obj // nil: absent
}

// batchChanges returns the creation of all rows, their delete, and a change of those with a variant.
func (k *kit[Obj]) batchChanges() []batchChange[Obj] {
	changes := []batchChange[Obj]{{to: k.Rows}, {from: k.Rows}}
	if len(k.Variants) > 0 {
		changed := slices.Clone(k.Rows)
		for i, row := range changed {
			if variants := k.variantsOf(row); len(variants) > 0 {
				changed[i] = variants[0]
			}
		}
		changes = append(changes, batchChange[Obj]{k.Rows, changed})
	}
	return changes
}

// interruptBatches interrupts each change at each check of the context, and then completes the
// change, or deletes all rows. interrupt reports whether the context was checked that many times.
func (s *session[Obj]) interruptBatches(interrupt func(c batchChange[Obj], checks int) (tripped bool)) {
	for _, c := range s.batchChanges() {
		ends := [][]Obj{nil} // all rows are deleted
		if c.to != nil {
			ends = append(ends, c.to)
		}
		for _, wanted := range ends {
			for checks := 1; checks <= maxChecks; checks++ {
				s.deleteBatch(s.Rows)
				if c.from != nil {
					s.wantBatch(c.from, true, "it was deleted")
				}
				tripped := interrupt(c, checks)
				for _, row := range wanted {
					s.update(row)
				}
				if wanted != nil {
					s.wantBatch(wanted, false, "the last Update succeeded")
				} else {
					s.deleteBatch(s.Rows)
					s.wantBatch(s.Rows, true, "DeleteBatch should have removed it")
				}
				if !tripped {
					break
				}
			}
		}
	}
}

func batchInterrupted[Obj any](s *session[Obj]) {
	if !s.batches() {
		return
	}
	s.interruptBatches(func(c batchChange[Obj], checks int) bool {
		wire := newTripwire(checks, (*tripwire).end)
		if c.to == nil {
			for i, err := range s.tryDeleteBatch(wire, s.Rows) {
				s.wantNotTerminal(err)
				if err == nil {
					delete(s.present, s.Key(s.Rows[i]))
				}
			}
			return wire.tripped()
		}
		for i, result := range s.updateBatch(wire, c.to) {
			s.wantNotTerminal(result.Err)
			if result.Err == nil {
				s.wantUpdate(c.to[i], false, "UpdateBatch reported success, although its context ended during the call")
			}
		}
		return wire.tripped()
	})
}

func (s *session[Obj]) wantNotTerminal(err error) {
	s.t.Helper()
	if reconciler.IsTerminal(err) {
		s.t.Errorf("the error for the end of a context is terminal, so the operation would not be retried: %v", err)
	}
}

func batchCrashed[Obj any](s *session[Obj]) {
	if !s.batches() {
		return
	}
	s.interruptBatches(func(c batchChange[Obj], checks int) bool {
		wire := newTripwire(checks, (*tripwire).kill)
		s.await("a batch that is killed", func() {
			target := s.target.(reconciler.BatchTarget[Obj])
			if c.to == nil {
				target.DeleteBatch(wire, s.Snapshot(), slices.Clone(s.Rows))
				return
			}
			target.UpdateBatch(wire, s.Snapshot(), slices.Clone(c.to))
		}, nil, nil)
		s.open()
		return wire.tripped()
	})
}

// batchSlice clears the slices of batches afterwards.
func batchSlice[Obj any](s *session[Obj]) {
	if !s.batches() {
		return
	}
	target := s.target.(reconciler.BatchTarget[Obj])
	rows := slices.Clone(s.Rows)
	s.must("UpdateBatch", func() error {
		defer clear(rows)
		return outcomes(len(target.UpdateBatch(s.t.Context(), s.Snapshot(), rows)), len(rows))
	})
	for _, row := range s.Rows {
		s.present[s.Key(row)] = true
	}
	s.wantAll("UpdateBatch has just made it")
	s.wantBatch(s.Rows, false, "UpdateBatch has just made them")
	copy(rows, s.Rows)
	s.must("DeleteBatch", func() error {
		defer clear(rows)
		return outcomes(len(target.DeleteBatch(s.t.Context(), s.Snapshot(), rows)), len(rows))
	})
	clear(s.present)
	s.wantAllGone()
}

func (s *session[Obj]) wantAllGone() {
	s.t.Helper()
	for _, row := range s.Rows {
		s.wantGone(row)
	}
}

// batches reports whether the target implements BatchTarget.
func (s *session[Obj]) batches() bool {
	_, ok := s.target.(reconciler.BatchTarget[Obj])
	return ok
}

// halves yields every other row, starting with the row at index skip.
func (s *session[Obj]) halves(skip int) func(yield func(Obj) bool) {
	return func(yield func(Obj) bool) {
		for i := skip; i < len(s.Rows); i += 2 {
			if !yield(s.Rows[i]) {
				return
			}
		}
	}
}

// updateBatch applies rows and returns an outcome for each.
func (s *session[Obj]) updateBatch(ctx context.Context, rows []Obj) (results []reconciler.BatchResult) {
	s.t.Helper()
	s.must("UpdateBatch", func() error {
		results = s.target.(reconciler.BatchTarget[Obj]).UpdateBatch(ctx, s.Snapshot(), slices.Clone(rows))
		return outcomes(len(results), len(rows))
	})
	return results
}

// outcomes checks the number of outcomes.
func outcomes(are, want int) error {
	if are != want {
		return fmt.Errorf("%d outcomes for %d rows, expected one for each", are, want)
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
			s.t.Fatalf("after UpdateBatch with %s Contract.Holds is false: the world does not match the row", key)
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
