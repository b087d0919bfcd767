package link

import (
	"fmt"

	"github.com/statehive/statehive/statedb"
)

// Several rows can be for one link, under its names: while documents follow a device that gets another name, for example. One of them is
// applied to it, and has the record. The others are done if they declare the same, and otherwise in error. When the row that is
// applied is deleted, its record passes on to another one.

// applied returns the row that is applied to a link which a row is for: the one with a record of the link or, if there is none, the
// one with the link's proper name. That is the row itself unless the link has several names.
func (t *Target) applied(txn statedb.ReadTxn, is *Seen, row Link) Link {
	if t.rows == nil || is.OtherNames == "" {
		return row
	}
	first := Link{}
	for _, name := range is.names() {
		other, _, found := t.rows.Get(txn, ByKey.Query(Key(name)))
		if name == row.Name {
			other, found = row, true
		}
		if !found {
			continue
		}
		if rec, _ := t.records.Get(name); (state{link: is, rec: rec}).isRecorded() {
			return other
		}
		if first.Name == "" {
			first = other
		}
	}
	if first.Name == "" { // it has lost the row's name
		return row
	}
	return first
}

// declaresSame reports whether two rows declare the same of a link.
func (l Link) declaresSame(other Link) bool {
	a, errA := l.Normalized()
	b, errB := other.Normalized()
	return errA == nil && errB == nil &&
		a.Type == b.Type && a.Peer == b.Peer && a.Up == b.Up && a.MTU == b.MTU && a.MAC == b.MAC && a.Master == b.Master
}

// share finds out whether another row is applied to the link of a row. It is an error if that declares something else.
func (t *Target) share(txn statedb.ReadTxn, s state, row Link) (shared bool, err error) {
	first := t.applied(txn, s.link, row)
	switch {
	case first.Name == row.Name:
		return false, nil
	case !first.declaresSame(row):
		return true, fmt.Errorf("link %s is also declared as %s, with different fields, and stays as %s declares it: remove one of the documents", row.Name, first.Name, first.Name)
	}
	return true, nil
}

// inherited returns the record of the link of a row under another of its names, with that name, if no row has it any more: the row's
// document has been edited. Otherwise, or if we have created the link and the row is for another one, it returns the row's own record.
func (l looker) inherited(txn statedb.ReadTxn, s state, row Link) (name string, rec record) {
	if l.target.rows == nil || s.link.OtherNames == "" {
		return "", s.rec
	}
	for _, name := range s.link.names() {
		rec, _ := l.target.records.Get(name)
		if (state{link: s.link, rec: rec}).isRecorded() && !l.target.isDeclared(txn, name) && (rec.Created == nil || row.mayKeep(s.link, l.indexOf)) {
			return name, rec
		}
	}
	return "", s.rec
}

// indexOf returns the index of the link with a name, or 0.
func (l looker) indexOf(name string) int {
	if is, err := l.byName(name); err == nil && is != nil {
		return is.Index
	}
	return 0
}

// inherit moves an inherited record to the name of its row.
func (t *Target) inherit(s state) error {
	if s.earlier == "" {
		return nil
	}
	if err := t.records.Put(s.name, s.rec); err != nil {
		return err
	}
	return t.records.Remove(s.earlier)
}

// mayKeep reports whether a row is for a link that we have created, so that it need not be made anew. A veth whose other end is in another
// network namespace has no peer that could differ.
func (l Link) mayKeep(is *Seen, indexOf func(name string) int) bool {
	return l.Type == "" || l.Type == is.Type && (is.Peer == 0 || indexOf(l.Peer) == is.Peer)
}

// heir returns another row for a link of which a row with a record is deleted, if there is one that the link may be left to.
func (t *Target) heir(txn statedb.ReadTxn, is *Seen, deleted string, rec record, indexOf func(name string) int) (row Link, found bool) {
	if t.rows == nil {
		return row, false
	}
	for _, name := range is.names() {
		row, _, found = t.rows.Get(txn, ByKey.Query(Key(name)))
		if name != deleted && found && (row.Type == "" || (rec.Created != nil || row.Adopt) && row.mayKeep(is, indexOf)) {
			return row, true
		}
	}
	return Link{}, false
}
