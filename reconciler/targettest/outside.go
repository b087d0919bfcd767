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

// removedMeanwhile removes what a row stands for at each look at the context.
func removedMeanwhile[Obj any](s *session[Obj], row Obj) {
	s.interruptEverywhere(row, func(c change[Obj], looks int) *tripwire {
		asked, answered := make(chan struct{}, 1), make(chan struct{})
		wire := newTripwire(looks, func(*tripwire) {
			asked <- struct{}{}
			select {
			case <-answered:
			case <-time.After(100 * time.Millisecond): // a lock may have to be let go first
			}
		})
		err := s.tryMeddled(wire, c, asked, func() {
			s.Remove(s.t, row)
			close(answered)
		})
		if reconciler.IsTerminal(err) {
			s.t.Errorf("the error for what is removed meanwhile is terminal, so that nothing would repeat the operation: %v", err)
		}
		return wire
	})
}

// tryMeddled does the operation of a change and meddles once when asked to.
func (s *session[Obj]) tryMeddled(wire *tripwire, c change[Obj], asked <-chan struct{}, meddle func()) (err error) {
	s.t.Helper()
	done := false
	s.await("an operation on "+s.Key(c.row)+", which is removed meanwhile,", func() {
		if c.to == nil {
			err = s.target.Delete(wire, s.Snapshot(), c.row)
		} else {
			_, err = s.target.Update(wire, s.Snapshot(), *c.to)
		}
	}, asked, func() {
		meddle()
		done = true
	})
	if wire.tripped() && !done { // the operation was quicker
		meddle()
	}
	return err
}

func foreign[Obj any](s *session[Obj]) {
	intact := s.Foreign(s.t)
	check := func(when string) {
		s.t.Helper()
		if !intact() {
			s.t.Fatalf("what others made is not intact %s", when)
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
			s.t.Fatalf("Update(%s) of a row that cannot be succeeds, expected an error", s.Key(row))
		}
		if !reconciler.IsTerminal(err) {
			s.t.Errorf("the error of Update(%s) is not terminal, so that it is repeated in vain: %v", s.Key(row), err)
		}
		s.wantObserved()
		if changes, ok, err := s.diff(s.t.Context(), row); ok && err == nil {
			s.t.Errorf("Diff(%s) of a row that cannot be says %v, expected an error", s.Key(row), changes)
		}
		s.delete(row)
	}
}
