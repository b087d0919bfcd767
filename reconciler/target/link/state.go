package link

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/statedb"
)

// alias marks the links that we created, visibly for people.
const alias = "statehive"

// record is written before a link is created or changed.
type record struct {
	Created  *created  `json:"created,omitempty"`
	Borrowed *borrowed `json:"borrowed,omitempty"`
}

// created is the record of a link that we created, were about to create, or have taken over.
type created struct {
	Type string `json:"type"`
	// Adopted reports whether others made the link. It is given back when its row no longer has a type.
	Adopted bool `json:"adopted,omitempty"`
	// MAC is the hardware address that the link is created with; empty if it has none, or if
	// others made the link.
	MAC string `json:"mac,omitempty"`
	// Index is the link's index; 0 if it is not known yet.
	Index  int    `json:"index,omitempty"`
	Before before `json:"before,omitzero"`
}

// borrowed is the original state of a link that others made, of which we only set attributes.
type borrowed struct {
	Index  int    `json:"index"`
	Up     bool   `json:"up"`
	Marked bool   `json:"marked,omitempty"` // whether it has had our alias, because it was adopted before
	Before before `json:"before,omitzero"`
}

func borrowedIndex(_ string, rec record) (index int, ok bool) {
	if rec.Borrowed == nil {
		return 0, false
	}
	return rec.Borrowed.Index, true
}

func (r record) equal(other record) bool {
	return same(r.Created, other.Created) && same(r.Borrowed, other.Borrowed)
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// ErrForeign is matched by the error for a name whose link somebody else made.
var ErrForeign = errors.New("a link of this name exists and was not made by this agent")

// ForeignError is the error for a link that is not ours. It matches ErrForeign.
type ForeignError struct {
	Name   string
	Type   string // of the existing link
	Marked bool   // whether the link has our alias
	// Unfit is the reason why the link cannot be adopted although the row has adopt set; empty
	// if the row does not.
	Unfit string
}

// Error implements error.
func (e *ForeignError) Error() string {
	text := fmt.Sprintf("link %s: %v (it is of type %s); it is left alone: ", e.Name, ErrForeign, e.Type)
	if e.Marked {
		text = fmt.Sprintf("link %s: %v, according to the state directory (it is of type %s, with our alias %q); it is left alone: ", e.Name, ErrForeign, e.Type, alias)
	}
	if e.Unfit != "" {
		return text + "it cannot be adopted, because " + e.Unfit
	}
	return text + "delete it, set adopt to take it over, or leave out the type to only set its attributes"
}

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }

// state is the existing link of a name, with its record.
type state struct {
	name string
	link *Seen  // nil if it does not exist
	peer string // of a veth whose other end is in this network namespace
	rec  record

	master string // the name of its master
	wanted *Seen  // the master that its row wants; nil if there is none
	was    *Seen  // its master before we changed it; nil if there is none

	renamed *Seen // the link of others that the record is about, if it has another name now; otherwise nil
	strayed bool  // whether the link of others that has the name has a record of another name only
	shared  bool  // whether another row is applied to the link, under another of its names

	earlier string // the name that the record is under, if it is not the row's but another one of the link, which is in no row any more
}

// looker looks up links in a mirror's table or in the kernel.
type looker struct {
	target *Target
	ctx    context.Context //nolint:containedctx // of one operation
	view   mirror.View[Seen]
}

// looker returns a looker that sees everything that the kernel did before the call.
func (t *Target) looker(ctx context.Context) looker {
	return looker{t, ctx, t.mirror.Load().View(ctx)}
}

// byName returns the link with a name, or nil. Alternative names are not looked up in the view,
// because the kernel does not announce changes of the alternative names of a link that is down.
func (l looker) byName(name string) (*Seen, error) {
	if l.view.Reliable() {
		for s := range l.view.Table.List(l.view.Txn, SeenByName.Query(name)) {
			if s.Name == name {
				return &s, nil
			}
		}
	}
	link, err := l.target.conn.LinkByName(l.ctx, name)
	s := seenOf(link)
	return found(&s, err)
}

// byIndex returns the link with an index, or nil.
func (l looker) byIndex(index int) (*Seen, error) {
	if l.view.Reliable() {
		if s, ok := l.view.Get(SeenByIndex.Query(index)); ok {
			return &s, nil
		}
		return nil, nil
	}
	link, err := l.target.conn.LinkByIndex(l.ctx, index)
	s := seenOf(link)
	return found(&s, err)
}

// recorded returns the state of a name with a record, and whether the link that the record is about exists, under any name.
func (l looker) recorded(name string) (s state, is bool, err error) {
	if s, err = l.look(name); err != nil || s.isRecorded() || s.link != nil || s.rec.Created == nil {
		return s, s.isRecorded(), err
	}
	ours, err := l.renamed(s.rec)
	return s, ours != nil, err
}

// renamed returns the link of ours that a record is about, if it exists under any name, or nil.
func (l looker) renamed(rec record) (*Seen, error) {
	if rec.Created.Index == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	link, err := l.byIndex(rec.Created.Index)
	if link == nil || link.Alias != alias || link.Type != rec.Created.Type {
		return nil, err
	}
	return link, nil
}

func found(s *Seen, err error) (*Seen, error) {
	switch {
	case errors.Is(err, syscall.ENODEV):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return s, nil
}

func (l looker) look(name string) (s state, err error) {
	if err := l.ctx.Err(); err != nil {
		return s, err
	}
	s.name = name
	s.rec, _ = l.target.records.Get(name)
	if s.link, err = l.byName(name); err == nil && s.link != nil && s.rec.Created != nil && s.link.Alias != alias {
		// The kernel does not announce the alias of a link that is down.
		s.link, err = looker{target: l.target, ctx: l.ctx}.byIndex(s.link.Index)
	}
	if err == nil && s.rec.Borrowed != nil && !s.borrowed() {
		s.renamed, err = l.byIndex(s.rec.Borrowed.Index)
	}
	if err != nil || s.link == nil {
		return s, err
	}
	other, found := l.target.records.Find(s.link.Index)
	s.strayed = found && other != name && !s.borrowed()
	return l.lookAround(s)
}

// lookAround adds the links that have to do with an existing link.
func (l looker) lookAround(s state) (_ state, err error) {
	if s.peer, err = l.nameOf(s.link.Peer); err != nil {
		return s, err
	}
	if s.master, err = l.nameOf(s.link.Master); err != nil {
		return s, err
	}
	if index := s.before().Master; index != 0 {
		if s.was, err = l.byIndex(index); err != nil {
			return s, err
		}
	}
	return s, nil
}

// nameOf returns the name of the link with an index; empty if there is none.
func (l looker) nameOf(index int) (string, error) {
	if index == 0 {
		return "", nil
	}
	link, err := l.byIndex(index)
	if link == nil {
		return "", err
	}
	return link.Name, err
}

// lookAt returns the state of a row's link.
func (l looker) lookAt(row Link) (state, error) {
	s, err := l.look(row.Name)
	if err == nil && row.Master != "" {
		s.wanted, err = l.byName(row.Master)
	}
	return s, err
}

// lookFor returns the state of a row's link, and an error if the row cannot be applied.
func (l looker) lookFor(txn statedb.ReadTxn, row Link) (state, error) {
	s, err := l.lookAt(row)
	if err == nil && s.link != nil {
		s.shared, err = l.target.share(txn, s, row)
	}
	if err == nil && s.link != nil && !s.shared && !s.isRecorded() {
		if s.earlier, s.rec = l.inherited(txn, s, row); s.earlier != "" {
			s, err = l.lookAround(s)
		}
	}
	switch {
	case err != nil:
		return state{}, err
	case s.shared:
		return s, nil
	case s.link == nil && row.Type == "":
		return state{}, fmt.Errorf("link %s does not exist and has no type to create it with: %w", row.Name, syscall.ENODEV)
	case s.link != nil && row.Type != "" && !s.created():
		return s, l.target.refusal(s, row)
	case s.link != nil && row.Type == Veth && s.link.Type == Veth && s.peer != row.Peer:
		return l.withPeer(s, row)
	}
	return s, nil
}

// withPeer returns the state of a veth whose other end has another name than in its row: an alternative one of the row's, or none because it
// is in another network namespace. It is an error if the name in the row is that of another link, which cannot be made the other end.
func (l looker) withPeer(s state, row Link) (state, error) {
	holder, err := l.byName(row.Peer)
	switch {
	case holder == nil || err != nil:
		return s, err
	case s.peer == "":
		return s, fmt.Errorf("the other end of %s is in another network namespace, and %s is another link: rename or remove that", row.Name, row.Peer)
	case holder.Index == s.link.Index:
		return s, fmt.Errorf("link %s stays as it is: its peer %s is another name of itself", s.name, row.Peer)
	case holder.Index == s.link.Peer:
		s.peer = row.Peer
	}
	return s, nil
}

// peerTaken returns an error if a link that is not free has the name of a row's peer.
func (l looker) peerTaken(row Link, free func(holder Seen) bool) error {
	if row.Type != Veth {
		return nil
	}
	holder, err := l.byName(row.Peer)
	if err != nil || holder == nil || free(*holder) {
		return err
	}
	return fmt.Errorf("create %s %s: link %s already exists: %w", row.Type, row.Name, row.Peer, syscall.EEXIST)
}

// mayBecomeFree reports whether the name of a link may become free when a link that is looked at is recreated: it is that one,
// or its other end, or another one that we created.
func (l looker) mayBecomeFree(s state, holder Seen) bool {
	rec, _ := l.target.records.Get(holder.Name)
	other, err := l.nameOf(holder.Peer)
	ofOther, _ := l.target.records.Get(other)
	return err != nil || holder.Index == s.link.Index || holder.Index == s.link.Peer || rec.Created != nil || ofOther.Created != nil
}

// refusal returns the error for a link that cannot be created because another link has its
// name. It returns nil if the row takes over the other link.
func (t *Target) refusal(s state, row Link) error {
	if rec, known := t.records.Get(s.peer); known && rec.Created != nil {
		return fmt.Errorf("link %s is there already, as the other end of %s, which was created with its own row: leave out the type: %w", s.name, s.peer, ErrForeign)
	}
	foreign := &ForeignError{Name: s.name, Type: s.link.Type, Marked: s.link.Alias == alias}
	switch {
	case !row.Adopt:
		return foreign
	case s.link.Type == Veth && row.Type == Veth && s.peer == "":
		foreign.Unfit = "its other end is in another network namespace"
	case s.isLike(row):
		return nil
	case s.link.Type != row.Type:
		foreign.Unfit = "its type is not " + row.Type
	default:
		foreign.Unfit = fmt.Sprintf("its other end is %s, not %s", s.peer, row.Peer)
	}
	return foreign
}

// created reports whether the link exists and was created or taken over by us. Such a link
// has the index and the type in the record; or, if we died before recording the index, the alias or the
// hardware address. Others may change the alias and the hardware address later.
func (s state) created() bool {
	rec := s.rec.Created
	return s.link != nil && rec != nil &&
		(s.link.Alias == alias || rec.MAC != "" && s.link.MAC == rec.MAC || rec.Index != 0 && s.link.Index == rec.Index && s.link.Type == rec.Type)
}

// borrowed reports whether the link exists and is the one whose attributes we recorded.
func (s state) borrowed() bool {
	return s.link != nil && s.rec.Borrowed != nil && s.rec.Borrowed.Index == s.link.Index
}

// isRecorded reports whether the record is about an existing link, perhaps with another name.
func (s state) isRecorded() bool { return s.created() || s.borrowed() || s.renamed != nil }

// before returns the attributes that the link had before we changed them.
func (s state) before() before {
	switch {
	case s.created():
		return s.rec.Created.Before
	case s.borrowed():
		return s.rec.Borrowed.Before
	}
	return before{}
}

// takenOver returns the record of a link of others that is being taken over.
func takenOver(s state) record {
	was := s.before()
	if s.link.Alias != alias {
		was.Alias = s.link.Alias
	}
	return record{Created: &created{Type: s.link.Type, Adopted: true, Index: s.link.Index, Before: was}}
}

// isLike reports whether the link has the type and the peer of the row. A peer
// that was moved to another network namespace counts as correct.
func (s state) isLike(row Link) bool {
	return s.link.Type == row.Type && (s.peer == "" || s.peer == row.Peer)
}

// row returns the existing link as a row.
func (s state) row() Link {
	if s.link == nil {
		return Link{Name: s.name}
	}
	row := Link{Name: s.name, Up: s.link.Up, MTU: s.link.MTU, MAC: s.link.MAC, Master: s.master}
	if s.created() {
		row.Type, row.Peer = s.link.Type, s.peer
	}
	return row
}
