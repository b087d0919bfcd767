package targettest

import (
	"reflect"
	"slices"

	"github.com/statehive/statehive/reconciler"
)

// batchDiffs compares all rows, variants and invalid rows in one call, when none, some and all of
// Rows exist, and expects the result of Diff for each.
func batchDiffs[Obj any](s *session[Obj]) {
	differ, ok := s.target.(reconciler.BatchDiffer[Obj])
	if !ok {
		return
	}
	rows := slices.Concat(s.Rows, s.Variants, s.Invalid)
	s.wantDiffs(differ, rows, "none of Rows exists")
	for row := range s.halves(0) {
		s.update(row)
	}
	s.wantDiffs(differ, rows, "every other one of Rows exists")
	s.updateAll()
	s.wantDiffs(differ, rows, "all of Rows exist")
	s.wantObserved()
}

func (s *session[Obj]) wantDiffs(differ reconciler.BatchDiffer[Obj], rows []Obj, when string) {
	s.t.Helper()
	var results []reconciler.DiffResult
	s.must("DiffBatch", func() error {
		results = differ.DiffBatch(s.t.Context(), s.Snapshot(), slices.Clone(rows))
		return nil
	})
	if len(results) != len(rows) {
		s.t.Fatalf("DiffBatch: %d outcomes for %d rows, expected one for each", len(results), len(rows))
	}
	for i, row := range rows {
		changes, _, err := s.diff(s.t.Context(), row)
		same := len(changes) == 0 && len(results[i].Changes) == 0 || reflect.DeepEqual(changes, results[i].Changes)
		if !same || (err == nil) != (results[i].Err == nil) {
			s.t.Errorf("DiffBatch returns %v, %v for %s when %s, expected the result of Diff: %v, %v",
				results[i].Changes, results[i].Err, s.Key(row), when, changes, err)
		}
	}
}
