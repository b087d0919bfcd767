package targettest

import (
	"context"
	"errors"

	"github.com/statehive/statehive/reconciler"
)

func ended[Obj any](s *session[Obj]) context.Context {
	ctx, cancel := context.WithCancelCause(s.t.Context())
	cancel(errors.New("ended by the contract kit"))
	return ctx
}

func endedContext[Obj any](s *session[Obj], row Obj) {
	s.target = s.Open(s.t)
	if err := s.do("Init", func() error { return s.target.Init(ended(s)) }); err == nil {
		s.t.Errorf("Init succeeds with a context that has ended, expected an error")
	}
	s.open()
	if _, err := s.tryUpdate(ended(s), row); err == nil {
		s.t.Errorf("Update(%s) succeeds with a context that has ended, expected an error", s.Key(row))
	}
	s.wantUpdate(row, true, "with a context that had ended nothing was to be done")
	if err := s.tryDelete(ended(s), row); err == nil {
		s.t.Errorf("Delete(%s) succeeds with a context that has ended, expected an error", s.Key(row))
	}
	s.wantUpdate(row, false, "with a context that had ended nothing was to be deleted")
	if changes, _, err := s.diff(ended(s), row); err == nil && len(changes) > 0 {
		s.t.Errorf("Diff(%s) = %v with a context that has ended, expected an error, or that it is in sync", s.Key(row), changes)
	}
	if rows, ok, err := s.observe(ended(s)); ok && err == nil && len(rows) != 1 {
		s.t.Errorf("Observe yields %d rows and no error with a context that has ended, expected an error, or the one that is there", len(rows))
	}
}

// endedPrune is for targets that cannot observe.
func endedPrune[Obj any](s *session[Obj]) {
	if !s.prunes() {
		return
	}
	s.updateAll()
	if err := s.do("Prune", func() error { _, err := s.callPrune(ended(s), nil); return err }); err == nil {
		s.t.Errorf("Prune succeeds with a context that has ended, expected an error")
	}
	for _, row := range s.Rows {
		s.wantUpdate(row, false, "with a context that had ended nothing was to be pruned")
	}
}

// observeInterrupted ends the context at each look: what then is missing would be
// taken for gone.
func observeInterrupted[Obj any](s *session[Obj]) {
	s.updateAll()
	for looks := 1; looks <= maxLooks; looks++ {
		wire := newTripwire(looks, (*tripwire).end)
		rows, ok, err := s.observe(wire)
		if ok && err == nil && len(rows) != len(s.Rows) {
			s.t.Errorf("Observe yields %q and no error, although its context ended meanwhile and there is more: expected an error", s.keysOf(rows))
		}
		if !ok || !wire.tripped() {
			break
		}
	}
	s.wantObserved()
}

// endIsNotTerminal looks at the error of each operation at each end.
func endIsNotTerminal[Obj any](s *session[Obj], row Obj) {
	check := func(err error) {
		if reconciler.IsTerminal(err) {
			s.t.Errorf("the error for the end of a context is terminal, so that nothing would repeat the operation: %v", err)
		}
	}
	for _, c := range s.changes(row) {
		for looks := 1; looks <= maxLooks && !s.t.Failed(); looks++ {
			s.begin(c)
			wire := newTripwire(looks, (*tripwire).end)
			check(s.try(wire, c))
			if !wire.tripped() {
				break
			}
		}
	}
}

// maxLooks bounds at how many looks at the context an operation is interrupted.
const maxLooks = 40

// change is an operation on a row and where it begins.
type change[Obj any] struct {
	row      Obj
	from, to *Obj // nil: absent
}

// changes returns a making, a change to each variant and a delete.
func (k *kit[Obj]) changes(row Obj) []change[Obj] {
	changes := []change[Obj]{{row: row, to: &row}}
	for _, variant := range k.variantsOf(row) {
		changes = append(changes, change[Obj]{row, &row, &variant})
	}
	return append(changes, change[Obj]{row: row, from: &row})
}

// begin brings about where a change begins.
func (s *session[Obj]) begin(c change[Obj]) {
	s.t.Helper()
	s.delete(c.row)
	if c.from != nil {
		s.update(*c.from)
	}
}

// try does the operation of a change.
func (s *session[Obj]) try(ctx context.Context, c change[Obj]) error {
	s.t.Helper()
	if c.to == nil {
		return s.tryDelete(ctx, c.row)
	}
	_, err := s.tryUpdate(ctx, *c.to)
	return err
}

// ends are the ways in which an interrupted change may go on: the row may still
// be wanted, or be gone by then.
func (s *session[Obj]) ends(c change[Obj]) []func() {
	target := c.row
	if c.to != nil {
		target = *c.to
	}
	return []func(){
		func() { s.converge(target) },
		func() {
			s.delete(target)
			s.wantGone(target)
		},
	}
}

// interruptEverywhere interrupts each change of a row at each look at the context,
// and then goes on in each way. interrupt does the change and returns the context.
func (s *session[Obj]) interruptEverywhere(row Obj, interrupt func(c change[Obj], looks int) *tripwire) {
	s.t.Helper()
	for _, c := range s.changes(row) {
		for _, goOn := range s.ends(c) {
			for looks := 1; looks <= maxLooks; looks++ {
				s.begin(c)
				wire := interrupt(c, looks)
				goOn()
				if !wire.tripped() {
					break
				}
			}
		}
	}
}

func interrupted[Obj any](s *session[Obj], row Obj) {
	s.interruptEverywhere(row, func(c change[Obj], looks int) *tripwire {
		wire := newTripwire(looks, (*tripwire).end)
		if err := s.try(wire, c); err == nil && c.to != nil {
			s.wantUpdate(*c.to, false, "Update succeeded, although its context ended meanwhile")
		}
		return wire
	})
}

// initInterrupted has a process come into a world with rows whose first Init does
// not succeed, or that dies in it.
func initInterrupted[Obj any](s *session[Obj]) {
	s.updateAll()
	for looks := 1; looks <= maxLooks; looks++ {
		wire := newTripwire(looks, (*tripwire).end)
		s.target = s.Open(s.t)
		if err := s.do("Init", func() error { return s.target.Init(wire) }); err != nil {
			s.must("Init, repeated after it was interrupted,", s.init)
		}
		s.wantAll("Init, which was interrupted, changes nothing of what is there")

		dying := newTripwire(looks, (*tripwire).kill)
		s.target = s.Open(s.t)
		s.await("Init, which is to be killed,", func() { _ = s.target.Init(dying) }, nil, nil) // its caller is dead
		s.open()
		s.wantAll("a process that died in Init has changed nothing of what is there")
		if !wire.tripped() {
			break
		}
	}
}

// wantAll checks that all rows are there, as they are to be.
func (s *session[Obj]) wantAll(why string) {
	s.t.Helper()
	s.wantObserved()
	for _, row := range s.Rows {
		s.wantUpdate(row, false, why)
	}
}

// pruneInterrupted has the context of Prune end, and then processes die in it.
func pruneInterrupted[Obj any](s *session[Obj]) {
	if !s.prunes() {
		return
	}
	last := len(s.Rows) - 1
	for _, act := range []func(*tripwire){(*tripwire).end, (*tripwire).kill} {
		for looks := 1; looks <= maxLooks; looks++ {
			s.updateAll()
			wire := newTripwire(looks, act)
			s.await("Prune, which is interrupted,", func() { _, _ = s.callPrune(wire, s.Rows[:last]) }, nil, nil) // as it may
			s.open()
			s.prune(s.Rows[:last])
			for i, row := range s.Rows {
				s.wantUpdate(row, i == last, "Prune, once more after it was interrupted, was to remove what is not desired and nothing else")
			}
			if !wire.tripped() {
				break
			}
		}
	}
}

// newProcess is about crashes between operations.
func newProcess[Obj any](s *session[Obj]) {
	s.updateAll()
	s.open()
	s.wantObserved()
	for _, row := range s.Rows {
		s.wantDiff(row, false, "the last process made it")
		s.wantUpdate(row, false, "the last process made it")
	}
	s.open()
	for _, row := range s.Rows {
		s.delete(row)
		s.wantGone(row)
		s.update(row)
	}
}

func crashed[Obj any](s *session[Obj], row Obj) {
	s.interruptEverywhere(row, func(c change[Obj], looks int) *tripwire {
		wire := newTripwire(looks, (*tripwire).kill)
		s.await("an operation that is to be killed", func() {
			if c.to == nil {
				_ = s.target.Delete(wire, s.Snapshot(), c.row) // its caller is dead
				return
			}
			_, _ = s.target.Update(wire, s.Snapshot(), *c.to) // likewise
		}, nil, nil)
		s.open()
		s.wantOnlyOf(row)
		return wire
	})
}

// wantOnlyOf checks that nothing else is observed than a row, which may be there
// or not.
func (s *session[Obj]) wantOnlyOf(row Obj) {
	s.t.Helper()
	rows, _ := s.mustObserve()
	if len(rows) > 1 || len(rows) == 1 && s.Key(rows[0]) != s.Key(row) {
		s.t.Fatalf("Observe yields %q after a crash, expected %q at most", s.keysOf(rows), s.Key(row))
	}
}
