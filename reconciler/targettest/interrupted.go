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
		s.t.Errorf("Init succeeds with an ended context, expected an error")
	}
	s.open()
	if _, err := s.tryUpdate(ended(s), row); err == nil {
		s.t.Errorf("Update(%s) succeeds with an ended context, expected an error", s.Key(row))
	}
	s.wantUpdate(row, true, "an operation whose context has ended must do nothing")
	if err := s.tryDelete(ended(s), row); err == nil {
		s.t.Errorf("Delete(%s) succeeds with an ended context, expected an error", s.Key(row))
	}
	s.wantUpdate(row, false, "a delete whose context has ended must delete nothing")
	if changes, _, err := s.diff(ended(s), row); err == nil && len(changes) > 0 {
		s.t.Errorf("Diff(%s) = %v with an ended context, expected an error or no change", s.Key(row), changes)
	}
	if rows, ok, err := s.observe(ended(s)); ok && err == nil && len(rows) != 1 {
		s.t.Errorf("Observe yields %d rows and no error with an ended context, expected an error or the one existing row", len(rows))
	}
}

// endedPrune checks targets that cannot observe.
func endedPrune[Obj any](s *session[Obj]) {
	if !s.prunes() {
		return
	}
	s.updateAll()
	if err := s.do("Prune", func() error { _, err := s.callPrune(ended(s), nil); return err }); err == nil {
		s.t.Errorf("Prune succeeds with an ended context, expected an error")
	}
	for _, row := range s.Rows {
		s.wantUpdate(row, false, "a Prune whose context has ended must remove nothing")
	}
}

// observeInterrupted ends the context at each check. If Observe did not return an error,
// missing rows would be considered gone.
func observeInterrupted[Obj any](s *session[Obj]) {
	s.updateAll()
	for checks := 1; checks <= maxChecks; checks++ {
		wire := newTripwire(checks, (*tripwire).end)
		rows, ok, err := s.observe(wire)
		if ok && err == nil && len(rows) != len(s.Rows) {
			s.t.Errorf("Observe yields %q and no error, although its context ended and there are more rows, expected an error", s.keysOf(rows))
		}
		if !ok || !wire.tripped() {
			break
		}
	}
	s.wantObserved()
}

// endIsNotTerminal checks the error of each operation, with the end of its context at each check.
func endIsNotTerminal[Obj any](s *session[Obj], row Obj) {
	check := func(err error) {
		if reconciler.IsTerminal(err) {
			s.t.Errorf("the error for the end of a context is terminal, so the operation would not be retried: %v", err)
		}
	}
	for _, c := range s.changes(row) {
		for checks := 1; checks <= maxChecks && !s.t.Failed(); checks++ {
			s.begin(c)
			wire := newTripwire(checks, (*tripwire).end)
			check(s.try(wire, c))
			if !wire.tripped() {
				break
			}
		}
	}
}

// maxChecks bounds the number of checks of the context at which an operation is interrupted.
const maxChecks = 40

// change is an operation on a row, with the state before and after it.
type change[Obj any] struct {
	row      Obj
	from, to *Obj // nil: absent
}

// changes returns the creation of a row, a change to each variant, and a delete.
func (k *kit[Obj]) changes(row Obj) []change[Obj] {
	changes := []change[Obj]{{row: row, to: &row}}
	for _, variant := range k.variantsOf(row) {
		changes = append(changes, change[Obj]{row, &row, &variant})
	}
	return append(changes, change[Obj]{row: row, from: &row})
}

// begin establishes the state before a change.
func (s *session[Obj]) begin(c change[Obj]) {
	s.t.Helper()
	s.delete(c.row)
	if c.from != nil {
		s.update(*c.from)
	}
}

// try performs the operation of a change.
func (s *session[Obj]) try(ctx context.Context, c change[Obj]) error {
	s.t.Helper()
	if c.to == nil {
		return s.tryDelete(ctx, c.row)
	}
	_, err := s.tryUpdate(ctx, *c.to)
	return err
}

// ends returns the ways in which an interrupted change may go on: the row is still
// desired, or it has been deleted in the meantime.
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

// interruptEverywhere interrupts each change of a row at each check of the context,
// and then goes on in each way. interrupt performs the change and returns the context.
func (s *session[Obj]) interruptEverywhere(row Obj, interrupt func(c change[Obj], checks int) *tripwire) {
	s.t.Helper()
	for _, c := range s.changes(row) {
		for _, goOn := range s.ends(c) {
			for checks := 1; checks <= maxChecks; checks++ {
				s.begin(c)
				wire := interrupt(c, checks)
				goOn()
				if !wire.tripped() {
					break
				}
			}
		}
	}
}

func interrupted[Obj any](s *session[Obj], row Obj) {
	s.interruptEverywhere(row, func(c change[Obj], checks int) *tripwire {
		wire := newTripwire(checks, (*tripwire).end)
		if err := s.try(wire, c); err == nil && c.to != nil {
			s.wantUpdate(*c.to, false, "Update succeeded, although its context ended during the call")
		}
		return wire
	})
}

// initInterrupted starts processes in a world with rows. Their first Init fails, or they
// die during it.
func initInterrupted[Obj any](s *session[Obj]) {
	s.updateAll()
	for checks := 1; checks <= maxChecks; checks++ {
		wire := newTripwire(checks, (*tripwire).end)
		s.target = s.Open(s.t)
		if err := s.do("Init", func() error { return s.target.Init(wire) }); err != nil {
			s.must("Init, repeated after it was interrupted", s.init)
		}
		s.wantAll("an interrupted Init must not change existing objects")

		dying := newTripwire(checks, (*tripwire).kill)
		s.target = s.Open(s.t)
		s.await("Init that is killed", func() { _ = s.target.Init(dying) }, nil, nil) // its caller is dead
		s.open()
		s.wantAll("a process that died in Init must not have changed existing objects")
		if !wire.tripped() {
			break
		}
	}
}

// wantAll checks that all rows are applied.
func (s *session[Obj]) wantAll(why string) {
	s.t.Helper()
	s.wantObserved()
	for _, row := range s.Rows {
		s.wantUpdate(row, false, why)
	}
}

// pruneInterrupted ends the context of Prune, and then kills processes during Prune.
func pruneInterrupted[Obj any](s *session[Obj]) {
	if !s.prunes() {
		return
	}
	last := len(s.Rows) - 1
	for _, act := range []func(*tripwire){(*tripwire).end, (*tripwire).kill} {
		for checks := 1; checks <= maxChecks; checks++ {
			s.updateAll()
			wire := newTripwire(checks, act)
			s.await("Prune that is interrupted", func() { _, _ = s.callPrune(wire, s.Rows[:last]) }, nil, nil) // the error is irrelevant
			s.open()
			s.prune(s.Rows[:last])
			for i, row := range s.Rows {
				s.wantUpdate(row, i == last, "Prune, repeated after it was interrupted, should have removed what is not desired and nothing else")
			}
			if !wire.tripped() {
				break
			}
		}
	}
}

// newProcess checks crashes between operations.
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
	s.interruptEverywhere(row, func(c change[Obj], checks int) *tripwire {
		wire := newTripwire(checks, (*tripwire).kill)
		s.await("an operation that is killed", func() {
			if c.to == nil {
				_ = s.target.Delete(wire, s.Snapshot(), c.row) // its caller is dead
				return
			}
			_, _ = s.target.Update(wire, s.Snapshot(), *c.to) // its caller is dead
		}, nil, nil)
		s.open()
		s.wantOnlyOf(row)
		return wire
	})
}

// wantOnlyOf checks that nothing but the given row is observed. The row itself need not be.
func (s *session[Obj]) wantOnlyOf(row Obj) {
	s.t.Helper()
	rows, _ := s.mustObserve()
	if len(rows) > 1 || len(rows) == 1 && s.Key(rows[0]) != s.Key(row) {
		s.t.Fatalf("Observe yields %q after a crash, expected %q at most", s.keysOf(rows), s.Key(row))
	}
}
