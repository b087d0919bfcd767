package targettest

import (
	"slices"
	"time"

	"github.com/statehive/statehive/reconciler"
)

func removed[Obj any](s *session[Obj], row Obj) {
	s.update(row)
	s.Remove(s.t, row)
	delete(s.present, s.Key(row))
	s.wantObserved()
	s.wantDiff(row, true, "it was removed behind the target's back")
	s.wantUpdate(row, true, "it was removed behind the target's back")
	s.converge(row)
	s.Remove(s.t, row)
	s.delete(row)
	s.wantGone(row)
}

func disturbed[Obj any](s *session[Obj], row Obj) {
	s.update(row)
	s.Disturb(s.t, row)
	s.wantDiff(row, true, "it was changed behind the target's back")
	s.wantUpdate(row, true, "it was changed behind the target's back")
	s.converge(row)
}

// removedMeanwhile removes the object of a row during an operation, at each check of the context.
func removedMeanwhile[Obj any](s *session[Obj], row Obj) {
	s.interruptEverywhere(row, func(c change[Obj], checks int) *tripwire {
		asked, answered := make(chan struct{}, 1), make(chan struct{})
		wire := newTripwire(checks, func(*tripwire) {
			asked <- struct{}{}
			select {
			case <-answered:
			case <-time.After(100 * time.Millisecond): // the operation may have to release a lock first
			}
		})
		err := s.tryMeddled(wire, c, asked, func() {
			s.Remove(s.t, row)
			close(answered)
		})
		if reconciler.IsTerminal(err) {
			s.t.Errorf("the error for an object that is removed during the operation is terminal, so the operation would not be retried: %v", err)
		}
		return wire
	})
}

// tryMeddled performs the operation of a change, and calls meddle once during or after it.
func (s *session[Obj]) tryMeddled(wire *tripwire, c change[Obj], asked <-chan struct{}, meddle func()) (err error) {
	s.t.Helper()
	done := false
	s.await("an operation on "+s.Key(c.row)+"whose object is removed meanwhile", func() {
		if c.to == nil {
			err = s.target.Delete(wire, s.Snapshot(), c.row)
		} else {
			_, err = s.target.Update(wire, s.Snapshot(), *c.to)
		}
	}, asked, func() {
		meddle()
		done = true
	})
	if wire.tripped() && !done { // the operation has ended first
		meddle()
	}
	return err
}

func foreign[Obj any](s *session[Obj]) {
	intact := s.Foreign(s.t)
	check := func(when string) {
		s.t.Helper()
		if !intact() {
			s.t.Fatalf("foreign objects are not intact %s", when)
		}
		s.wantObserved()
	}
	s.must("Init, repeated", s.init)
	check("after Init")
	s.updateAll()
	check("after Updates of rows")
	if s.prunes() {
		s.prune(nil)
		check("after Prune")
		s.updateAll()
	}
	for _, row := range slices.Backward(s.Rows) {
		s.delete(row)
	}
	check("after Deletes of rows")
	s.open()
	check("after a restart")
}

func refused[Obj any](s *session[Obj]) {
	for _, row := range s.Invalid {
		_, err := s.tryUpdate(s.t.Context(), row)
		if err == nil {
			s.t.Fatalf("Update(%s) of an invalid row succeeds, expected an error", s.Key(row))
		}
		if !reconciler.IsTerminal(err) {
			s.t.Errorf("the error of Update(%s) is not terminal, so it would be retried in vain: %v", s.Key(row), err)
		}
		s.wantObserved()
		if changes, ok, err := s.diff(s.t.Context(), row); ok && err == nil {
			s.t.Errorf("Diff(%s) of an invalid row returns %v, expected an error", s.Key(row), changes)
		}
		s.delete(row)
	}
}
