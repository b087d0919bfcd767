package link

// attributes returns the changes that are due to what a link can be told while it
// exists.
func (s state) attributes(row Link) []change {
	var due []change
	if mtu := s.wantedMTU(row); mtu != 0 && mtu != s.link.MTU {
		due = append(due, setMTU(s.name, s.link.Index, s.link.MTU, mtu))
	}
	if s.link.Up != row.Up {
		due = append(due, setUp(s.name, s.link.Index, s.link.Up, row.Up))
	}
	if s.created() && s.link.Alias != alias {
		due = append(due, setAlias(s.name, s.link.Index, s.link.Alias))
	}
	return due
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
	next := adopted{Index: s.link.Index, Up: s.link.Up}
	if s.adopted() {
		next = *s.rec.Adopted
	}
	if row.MTU != 0 && next.MTU == 0 {
		next.MTU = s.link.MTU
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

// restoration returns the changes that give an existing link the attributes it
// had before us.
func (s state) restoration() []change {
	var due []change
	before := s.rec.Adopted
	if before.MTU != 0 && before.MTU != s.link.MTU {
		due = append(due, setMTU(s.name, s.link.Index, s.link.MTU, before.MTU))
	}
	if before.Up != s.link.Up {
		due = append(due, setUp(s.name, s.link.Index, s.link.Up, before.Up))
	}
	return due
}
