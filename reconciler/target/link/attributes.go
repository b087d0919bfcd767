package link

import (
	"github.com/statehive/statehive/reconciler/target/internal/steps"
)

// attributes returns the steps that are due to what a link can be told while it
// exists.
func (t *Target) attributes(s state, row Link) []steps.Step {
	var due []steps.Step
	if mtu := s.wantedMTU(row); mtu != 0 {
		due = steps.Field("mtu", s.mtu(), mtu, func() error { return t.setMTU(s.name, s.index(), mtu) })
	}
	return append(due, steps.Field("up", s.up(), row.Up, func() error { return t.setUp(s.name, s.index(), row.Up) })...)
}

// wantedMTU is the row's; when that leaves it alone again, what it was before we
// changed it.
func (s state) wantedMTU(row Link) uint32 {
	if row.MTU == 0 && s.adopted() {
		return s.rec.Adopted.MTU
	}
	return row.MTU
}

// adopt records what an existing link was, before anything of it is changed.
func (t *Target) adopt(s state, row Link) (state, error) {
	next := adopted{Index: s.index(), Up: s.up()}
	if s.adopted() {
		next = *s.rec.Adopted
	}
	if row.MTU != 0 && next.MTU == 0 {
		next.MTU = s.mtu()
	}
	return t.keep(s, next)
}

// forgetMTU ends our care for the MTU of an existing link, once it is restored.
func (t *Target) forgetMTU(s state, row Link) error {
	if !s.adopted() || row.MTU != 0 {
		return nil
	}
	next := *s.rec.Adopted
	next.MTU = 0
	_, err := t.keep(s, next)
	return err
}

// keep writes the record of an existing link if it says something new.
func (t *Target) keep(s state, next adopted) (state, error) {
	if s.rec.Adopted != nil && *s.rec.Adopted == next {
		return s, nil
	}
	rec := record{Adopted: &next}
	if err := t.records.Put(s.name, rec); err != nil {
		return s, err
	}
	s.rec = rec
	return s, nil
}

// restore gives an existing link the attributes it had before us.
func (t *Target) restore(s state) error {
	before := s.rec.Adopted
	if before.MTU != 0 && before.MTU != s.mtu() {
		if err := t.setMTU(s.name, s.index(), before.MTU); err != nil {
			return err
		}
	}
	if before.Up != s.up() {
		return t.setUp(s.name, s.index(), before.Up)
	}
	return nil
}
