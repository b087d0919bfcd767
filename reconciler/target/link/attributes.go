package link

import (
	"context"
	"fmt"
	"slices"
	"syscall"

	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// before holds the attributes of a link as they were before we changed them.
type before struct {
	MTU    uint32 `json:"mtu,omitempty"`    // 0 if we have not changed it
	MAC    string `json:"mac,omitempty"`    // empty if we have not changed it
	Port   bool   `json:"port,omitempty"`   // whether we have changed the master
	Master int    `json:"master,omitempty"` // index of the previous master; 0 if there was none
	Alias  string `json:"alias,omitempty"`  // that the link had when it was adopted
}

// attributes returns the changes to make to an existing link.
// The alias comes first because it marks the link as ours. The up or down state comes
// last so that the link is never up with wrong attributes.
func (s state) attributes(row Link) []change {
	var due []change
	switch {
	case s.created() && s.link.Alias != alias:
		due = append(due, setAlias(s.name, s.link.Index, s.link.Alias, alias))
	case s.borrowed() && s.rec.Borrowed.Marked && s.link.Alias == alias:
		due = append(due, setAlias(s.name, s.link.Index, alias, s.rec.Borrowed.Before.Alias))
	}
	due = append(due, s.masterChanges(row)...)
	was := s.before()
	if mac := orElse(row.MAC, was.MAC); mac != "" && mac != s.link.MAC {
		due = append(due, setMAC(s.name, s.link.Index, s.link.MAC, mac))
	}
	if mtu := orElse(row.MTU, was.MTU); mtu != 0 && mtu != s.link.MTU {
		due = append(due, setMTU(s.name, s.link.Index, s.link.MTU, mtu))
	}
	if s.link.Up != row.Up {
		due = append(due, setUp(s.name, s.link.Index, s.link.Up, row.Up))
	}
	return due
}

// orElse returns the row's value. If the row no longer sets one, orElse returns the value
// from before we changed it.
func orElse[T comparable](wanted, was T) T {
	var none T
	if wanted == none {
		return was
	}
	return wanted
}

// masters are the types of links that can have ports.
var masters = []string{Bridge, "bond", "team", "vrf"}

// masterChanges returns the change to make to the master of a link, if any.
func (s state) masterChanges(row Link) []change {
	was := s.before()
	switch {
	case row.Master == "" && was.Port:
		return s.masterBack(was.Master)
	case row.Master == "":
		return nil
	case s.wanted == nil:
		err := fmt.Errorf("link %s: its master %s does not exist: %w", s.name, row.Master, syscall.ENODEV)
		return []change{{Change: masterChange(s.master, row.Master), err: err}}
	case s.wanted.Index == s.link.Master:
		return nil
	case !slices.Contains(masters, s.wanted.Type): // the kernel would take the link from its master before it refuses
		err := fmt.Errorf("link %s: %s is not a %s, and cannot be its master: %w", s.name, row.Master, Bridge, syscall.EOPNOTSUPP)
		return []change{{Change: masterChange(s.master, row.Master), err: err}}
	}
	return []change{setMaster(s.name, s.link.Index, s.master, row.Master, s.wanted.Index)}
}

// masterBack returns the change that restores the previous master of a link, unless that
// master is gone.
func (s state) masterBack(index int) []change {
	name := ""
	if s.was != nil {
		name = s.was.Name
	} else {
		index = 0
	}
	if index == s.link.Master {
		return nil
	}
	return []change{setMaster(s.name, s.link.Index, s.master, name, index)}
}

// restoration returns the changes that give an existing link back its original attributes.
func (s state) restoration() []change {
	return s.attributes(Link{Name: s.name, Up: s.rec.Borrowed.Up})
}

// touched returns was with the current values of the attributes that a row is about to change
// added.
func (s state) touched(was before, row Link) before {
	if row.MTU != 0 && was.MTU == 0 {
		if was.MTU = s.link.MTU; s.isOfOurs() {
			was.MTU = defaultMTU
		}
	}
	if row.MAC != "" && was.MAC == "" {
		was.MAC = s.link.MAC
	}
	if row.Master != "" && !was.Port {
		was.Port, was.Master = true, s.link.Master
	}
	return was
}

// defaultMTU is the MTU of links that are created without one.
const defaultMTU = 1500

// isOfOurs reports whether the link exists and was made by us, so that it has no earlier MTU.
func (s state) isOfOurs() bool { return s.created() && !s.rec.Created.Adopted }

// untouched returns b without the attributes that the row does not set.
func (b before) untouched(row Link) before {
	if row.MTU == 0 {
		b.MTU = 0
	}
	if row.MAC == "" {
		b.MAC = ""
	}
	if row.Master == "" {
		b.Port, b.Master = false, 0
	}
	return b
}

// note records the current attributes of a link before they are changed for a row.
func (t *Target) note(s state, row Link) (state, error) {
	switch {
	case s.created() && s.rec.givesBack(row):
		return t.keep(s, givenBack(s.link, s.touched(s.rec.Created.Before, row)))
	case s.created():
		made := *s.rec.Created
		made.Index, made.Before = s.link.Index, s.touched(made.Before, row)
		return t.keep(s, record{Created: &made})
	}
	next := borrowed{Index: s.link.Index, Up: s.link.Up}
	if s.borrowed() {
		next = *s.rec.Borrowed
	}
	next.Before = s.touched(next.Before, row)
	return t.keep(s, record{Borrowed: &next})
}

// givesBack reports whether a link was adopted and a row for it has no type any more.
func (r record) givesBack(row Link) bool {
	return r.Created != nil && r.Created.Adopted && row.Type == ""
}

// givenBack returns the record of a link that was adopted, when its row has no type any more.
func givenBack(is *Seen, was before) record {
	return record{Borrowed: &borrowed{Index: is.Index, Up: is.Up, Marked: true, Before: was}}
}

// settle sets the records right that are about another link than they were because links were renamed. The record of a name whose
// link has another name now ends, and that link gets back what it had before. If the link that has the name now has a record of
// another name, that is also the record of this name.
func (t *Target) settle(ctx context.Context, txn statedb.ReadTxn, s state) error {
	t.settling.Lock()
	defer t.settling.Unlock()
	l := t.looker(ctx)
	if err := t.end(l, txn, s.name); err != nil || s.link == nil {
		return err
	}
	other, found := t.records.Find(s.link.Index)
	if !found || other == s.name {
		return nil
	}
	if _, has := t.records.Get(s.name); has {
		return t.end(l, txn, other)
	}
	rec, _ := t.records.Get(other)
	if err := t.records.Put(s.name, rec); err != nil || t.isDeclared(txn, other) {
		return err
	}
	return t.records.Remove(other)
}

// maxRenamed is the largest number of links that exchanged names whose records are moved in one call.
const maxRenamed = 100

// borrows reports whether a row without a type has a name.
func (t *Target) borrows(txn statedb.ReadTxn, name string) bool {
	if t.rows == nil {
		return false
	}
	row, _, found := t.rows.Get(txn, ByKey.Query(Key(name)))
	return found && row.Type == ""
}

// isUsed reports whether rows of other kinds name a device.
func (t *Target) isUsed(txn statedb.ReadTxn, device string) bool {
	return t.used != nil && t.used(txn, device)
}

// isDeclared reports whether a row has a name.
func (t *Target) isDeclared(txn statedb.ReadTxn, name string) bool {
	if t.rows == nil {
		return false
	}
	_, _, found := t.rows.Get(txn, ByKey.Query(Key(name)))
	return found
}

// passOn gives the record of a link whose row is deleted to another row that is for the link, under another of its names, if there is
// one.
func (t *Target) passOn(ctx context.Context, txn statedb.ReadTxn, s state) (done bool, err error) {
	if t.rows == nil || s.created() && s.link.Up && s.link.OtherNames == "" {
		return false, nil
	}
	var index int
	if s.created() {
		index = s.link.Index
	} else {
		index = s.rec.Borrowed.Index
	}
	link, err := t.conn.LinkByIndex(ctx, index) // the names of a link that is down are not announced
	if err != nil {
		return false, unlessGone(err)
	}
	is := seenOf(link)
	row, found := t.heir(txn, &is, s.name, s.rec, t.looker(ctx).indexOf)
	if !found {
		return false, nil
	}
	heir, passed := row.Name, s.rec
	if passed.givesBack(row) {
		passed = givenBack(&is, passed.Created.Before)
	}
	rec, _ := t.records.Get(heir)
	if rec.Borrowed != nil && rec.Borrowed.Index != is.Index { // that link may have another name now
		if err := t.endRenamed(ctx, txn, heir); err != nil {
			return false, err
		}
		rec, _ = t.records.Get(heir)
	}
	names := is.names()
	own := slices.Index(names, s.name)
	if (state{link: &is, rec: rec}).isRecorded() && (own < 0 || slices.Index(names, heir) < own) {
		return true, nil // that row is the one that is applied: see applied
	}
	return true, t.records.Put(heir, passed)
}

// endRenamed ends the record of a name whose link has another name now, and gives that link back what it had before.
func (t *Target) endRenamed(ctx context.Context, txn statedb.ReadTxn, name string) error {
	t.settling.Lock()
	defer t.settling.Unlock()
	return t.end(t.looker(ctx), txn, name)
}

// end restores the link that a record of a link of others is about, if it has another name than the record by now, and
// removes the record. If a row without a type has the new name, the link keeps its attributes and its record moves to that name. A
// record that is there already, of another renamed link, is dealt with in the same way.
func (t *Target) end(l looker, txn statedb.ReadTxn, name string) error {
	rec, _ := t.records.Get(name)
	if rec.Borrowed == nil {
		return nil
	}
	link, err := l.byIndex(rec.Borrowed.Index)
	if err != nil || link != nil && link.Name == name {
		return err
	}
	for moves := 0; link != nil && t.borrows(txn, link.Name) && moves < maxRenamed; moves++ {
		next, has := t.records.Get(link.Name)
		if has && (next.Borrowed == nil || next.Borrowed.Index == link.Index) {
			break
		}
		if err := t.records.Put(link.Name, rec); err != nil {
			return err
		}
		if !has {
			return t.records.Remove(name)
		}
		rec = next
		if link, err = l.byIndex(rec.Borrowed.Index); err != nil {
			return err
		}
		if link != nil && link.Name == name {
			return t.records.Put(name, rec)
		}
	}
	if link != nil {
		s, err := l.lookAround(state{name: link.Name, link: link, rec: rec})
		if err != nil {
			return err
		}
		if err := t.restore(l.ctx, s); err != nil {
			return err
		}
	}
	return t.records.Remove(name)
}

// restore gives an existing link back its original attributes.
func (t *Target) restore(ctx context.Context, s state) error {
	var requests []rtnl.Request
	due := s.restoration()
	for _, c := range due {
		requests = append(requests, c.request)
	}
	for n, err := range t.conn.Execute(ctx, requests) {
		if unlessGone(err) != nil {
			return fmt.Errorf("%s: %w", due[n].does, err)
		}
	}
	return nil
}

// forget drops the recorded values of attributes that the row no longer sets. It is called
// after they have been restored.
func (t *Target) forget(s state, row Link) error {
	next := s.rec
	switch was := s.before().untouched(row); {
	case s.created():
		made := *s.rec.Created
		made.Before, next.Created = was, &made
	case s.borrowed():
		lent := *s.rec.Borrowed
		lent.Before, next.Borrowed = was, &lent
	}
	_, err := t.keep(s, next)
	return err
}

// keep writes the record of a link if it has changed.
func (t *Target) keep(s state, next record) (state, error) {
	if s.rec.equal(next) {
		return s, nil
	}
	if err := t.records.Put(s.name, next); err != nil {
		return s, err
	}
	s.rec = next
	return s, nil
}
