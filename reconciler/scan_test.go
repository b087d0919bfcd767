package reconciler_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
)

// scan fills the table of what is observed from a listing that takes longer than
// the time that observations have to settle. While it lists, its source is
// incomplete; what it has found it writes in one transaction, at the end.
type scan struct {
	*watchful
	source *statedb.Source
	found  map[string]int // what the listing under way has seen
}

func scanning(t *testing.T, test func(t *testing.T, s *scan)) {
	t.Helper()
	s := &scan{}
	watching(t, func(o *watchful) {
		s.watchful = o
		o.check(o.db.Update(o.t.Context(), func(txn *statedb.WriteTxn) (err error) {
			s.source, err = o.seen.RegisterSource(txn, "listing")
			if err == nil {
				err = s.source.Initialized(txn)
			}
			return err
		}, o.seen))
	}, func(t *testing.T, _ *watchful) {
		test(t, s)
	})
}

// begin looks at what there is.
func (s *scan) begin() {
	s.t.Helper()
	s.found = s.target.state()
	s.check(s.db.Update(s.t.Context(), func(txn *statedb.WriteTxn) error {
		return s.source.Incomplete(txn, "a listing is under way")
	}, s.seen))
	synctest.Wait()
}

// end makes known what there was at its begin.
func (s *scan) end() {
	s.t.Helper()
	s.check(s.db.Update(s.t.Context(), func(txn *statedb.WriteTxn) error {
		for r := range s.seen.All(txn) {
			if _, there := s.found[r.ID]; there {
				continue
			}
			if _, _, err := s.seen.Delete(txn, r); err != nil {
				return err
			}
		}
		for id, is := range s.found {
			if _, _, err := s.seen.Insert(txn, sighting{id, is}); err != nil {
				return err
			}
		}
		return s.source.Complete(txn)
	}, s.seen))
	synctest.Wait()
}

// whole is a listing of 10 seconds.
func (s *scan) whole() {
	s.t.Helper()
	s.begin()
	s.pass(10 * time.Second)
	s.end()
	s.pass(3 * time.Second)
}

// wantQuiet checks that nothing was taken for drift.
func (s *scan) wantQuiet() {
	s.t.Helper()
	s.wantLog()
	s.wantDrift(0)
	s.wantConverged()
	s.equal("health", "ok: reconciled", s.health.last())
}

// sureOnce checks that what the listing does not know of has been applied once more at most,
// to make sure.
func (s *scan) sureOnce() {
	s.t.Helper()
	log := s.target.log()
	slices.Sort(log)
	s.equal("applied once more", slices.Compact(slices.Clone(log)), log)
}

// A listing may say nothing about what was done after it began.
func TestAnOperationDuringAScanIsNoDrift(t *testing.T) {
	for name, change := range map[string]func(s *scan){
		"a row that was changed": func(s *scan) { s.put(row{ID: "a", Want: 2}) },
		"a row that is new":      func(s *scan) { s.put(row{ID: "d", Want: 1}) },
		"a row that is back": func(s *scan) {
			s.delete("a")
			s.pass(time.Second)
			s.put(row{ID: "a", Want: 3})
		},
		"many rows": func(s *scan) { s.put(numbered(20, 1)...) },
	} {
		t.Run(name, func(t *testing.T) {
			scanning(t, func(_ *testing.T, s *scan) {
				s.begin()
				s.pass(2 * time.Second)
				change(s)
				s.pass(8 * time.Second)
				s.target.log()
				s.end()
				s.pass(5 * time.Second)
				s.sureOnce()
				s.wantQuiet()

				s.whole() // has seen it
				s.wantQuiet()
				s.pass(time.Hour)
				s.wantQuiet()
			})
		})
	}
}

// One that ended a moment before the listing began is as new to it as news are to
// a table that nobody lists.
func TestAnOperationJustBeforeAScanIsNoDrift(t *testing.T) {
	scanning(t, func(_ *testing.T, s *scan) {
		s.found = s.target.state()
		s.put(row{ID: "a", Want: 2})
		s.pass(100 * time.Millisecond)
		before := s.found
		s.begin()
		s.found = before // the outside world was slow to show it
		s.pass(10 * time.Second)
		s.target.log()
		s.end()
		s.pass(5 * time.Second)
		s.wantLog("update a=2") // to make sure
		s.wantQuiet()
	})
}

// An operation that is running when the listing begins, or when it ends, is during it.
func TestAnOperationAcrossTheEndsOfAScanIsNoDrift(t *testing.T) {
	for name, when := range map[string]struct{ before, takes time.Duration }{
		"across its begin": {before: -time.Second, takes: 3 * time.Second},
		"across its end":   {before: 9 * time.Second, takes: 3 * time.Second},
		"around all of it": {before: -time.Second, takes: 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			scanning(t, func(_ *testing.T, s *scan) {
				s.target.will(lasting(when.takes))
				if when.before < 0 {
					s.put(row{ID: "a", Want: 2})
					s.pass(-when.before)
					s.begin()
					s.pass(10 * time.Second)
				} else {
					s.begin()
					s.pass(when.before)
					s.put(row{ID: "a", Want: 2})
					s.pass(10*time.Second - when.before)
				}
				s.end()
				s.pass(10 * time.Second)
				s.equal("first operation", "update a=2", s.target.log()[0])
				s.wantQuiet()
				s.whole()
				s.wantQuiet()
			})
		})
	}
}

// What is known of the other rows is worth as much as ever.
func TestAScanFindsTheDriftOfRowsThatWereDoneBefore(t *testing.T) {
	scanning(t, func(_ *testing.T, s *scan) {
		s.target.corrupt("b", 7)
		s.begin()
		s.pass(2 * time.Second)
		s.put(row{ID: "a", Want: 2})
		s.pass(8 * time.Second)
		s.target.log()
		s.end()
		s.pass(100 * time.Millisecond)
		s.wantLog("update a=2", "update b=1") // a to make sure
		s.wantDrift(1)
		s.pass(10 * time.Second) // the repair is newer than the listing too
		s.wantLog()
		s.whole()
		s.wantLog()
		s.wantDrift(1)
		s.wantConverged()
	})
}

// What has happened to a row after an operation, and in the same listing, is mended too.
func TestDriftAfterAnOperationInAScanIsRepaired(t *testing.T) {
	scanning(t, func(_ *testing.T, s *scan) {
		s.begin()
		s.pass(2 * time.Second)
		s.put(row{ID: "a", Want: 2})
		s.pass(2 * time.Second)
		s.target.corrupt("a", 7)
		s.pass(6 * time.Second)
		s.target.log()
		s.end()
		s.pass(5 * time.Second)
		s.wantLog("update a=2")
		s.whole()
		s.wantQuiet()
	})
}

// The next listing is newer than the operation, so it counts.
func TestTheNextScanFindsDrift(t *testing.T) {
	scanning(t, func(_ *testing.T, s *scan) {
		s.begin()
		s.pass(2 * time.Second)
		s.put(row{ID: "a", Want: 2})
		s.pass(8 * time.Second)
		s.end()
		s.pass(5 * time.Second)
		s.target.log()
		s.target.corrupt("a", 7)
		s.begin()
		s.pass(10 * time.Second)
		s.end()
		s.pass(100 * time.Millisecond)
		s.wantLog("update a=2")
		s.wantDrift(1)
	})
}

// News that come for a row after the listing are newer than it.
func TestNewsAfterAScanFindDrift(t *testing.T) {
	scanning(t, func(_ *testing.T, s *scan) {
		s.begin()
		s.pass(2 * time.Second)
		s.put(row{ID: "a", Want: 2})
		s.pass(8 * time.Second)
		s.end()
		s.pass(5 * time.Second)
		s.target.log()
		s.breaks("a", 7)
		s.pass(100 * time.Millisecond)
		s.wantLog("update a=2")
		s.wantDrift(1)
	})
}

// An operation counts as ended when its status is written, which may be after a listing that
// began after its end.
func TestAListingBetweenAnOperationAndItsStatusFindsDrift(t *testing.T) {
	scanning(t, func(_ *testing.T, s *scan) {
		s.target.will(lasting(20 * time.Millisecond))
		s.put(row{ID: "a", Want: 2})
		s.pass(10 * time.Millisecond)
		lock, err := s.db.WriteTxn(s.t.Context(), s.rows())
		s.check(err)
		s.pass(20 * time.Millisecond)
		s.target.corrupt("a", 7)
		s.begin()
		s.pass(20 * time.Millisecond)
		s.end()
		s.pass(time.Millisecond)
		lock.Abort()
		s.target.log()
		s.pass(5 * time.Second)
		s.wantLog("update a=2")
		s.wantConverged()
		s.pass(time.Hour)
		s.wantLog()
	})
}
