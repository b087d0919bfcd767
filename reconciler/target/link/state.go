package link

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
)

// alias marks the links that we created, for people to see.
const alias = "statehive"

// record is written before a link is created or changed.
type record struct {
	Created *created `json:"created,omitempty"`
	Adopted *adopted `json:"adopted,omitempty"`
}

// created is about a link that we made, or were about to.
type created struct {
	Type string `json:"type"`
	// MAC is the hardware address that the link has from its first moment.
	MAC string `json:"mac"`
}

// adopted is what a link was that existed.
type adopted struct {
	Index int    `json:"index"`
	Up    bool   `json:"up"`
	MTU   uint32 `json:"mtu,omitempty"` // 0: we have not touched it
}

// ErrForeign is matched by the error for a name whose link others made.
var ErrForeign = errors.New("a link of this name exists and was not made by this agent")

// ForeignError is the error for a link that is not ours. It matches ErrForeign.
type ForeignError struct {
	Name string
	Type string // of the link that is there
}

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("link %s: %v (it is of type %s); it is left alone: delete it, or leave out the type to set its attributes only", e.Name, ErrForeign, e.Type)
}

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }

// state is what there is under a name.
type state struct {
	name string
	link *Seen  // nil if there is none
	peer string // of a veth whose other end is in this network namespace
	rec  record
}

// looker looks at links: in a mirror's table, or in the kernel.
type looker struct {
	target *Target
	ctx    context.Context //nolint:containedctx // of one operation
	view   mirror.View[Seen]
}

// looker returns one that sees all that the kernel has done before the call.
func (t *Target) looker(ctx context.Context) looker {
	return looker{t, ctx, t.mirror.Load().View(ctx)}
}

// byName returns the link with a name, or nil. What a view says of names besides the
// first one is not relied on: the kernel does not tell when those of a link that is
// down change.
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
	if s.link, err = l.byName(name); err == nil && s.created() && s.link.Alias != alias {
		// The kernel does not tell of the alias of a link that is down.
		s.link, err = looker{target: l.target, ctx: l.ctx}.byIndex(s.link.Index)
	}
	if err != nil || s.link == nil || s.link.Peer == 0 {
		return s, err
	}
	peer, err := l.byIndex(s.link.Peer)
	if peer != nil {
		s.peer = peer.Name
	}
	return s, err
}

// lookFor looks at what there is for a row, and refuses what cannot be brought
// about.
func (l looker) lookFor(row Link) (state, error) {
	if _, err := row.Normalized(); err != nil {
		return state{}, reconciler.Terminal(err)
	}
	s, err := l.look(row.Name)
	switch {
	case err != nil:
		return state{}, err
	case s.link == nil && row.Type == "":
		return state{}, fmt.Errorf("link %s does not exist and has no type to create it with: %w", row.Name, syscall.ENODEV)
	case s.link != nil && row.Type != "" && !s.created():
		return state{}, l.target.refusal(s)
	}
	return s, nil
}

// refusal is the error for a link that cannot be created: one of its name is
// there already.
func (t *Target) refusal(s state) error {
	if rec, known := t.records.Get(s.peer); known && rec.Created != nil {
		return fmt.Errorf("link %s is there already, as the other end of %s, which was created with its own row: leave out the type: %w", s.name, s.peer, ErrForeign)
	}
	return &ForeignError{Name: s.name, Type: s.link.Type}
}

// created reports whether the link is there and one that we created. It has the
// alias, or the hardware address of the record if we died before setting it.
func (s state) created() bool {
	return s.link != nil && s.rec.Created != nil && (s.link.Alias == alias || s.link.MAC == s.rec.Created.MAC)
}

// adopted reports whether the link is there and the very one whose attributes we
// recorded.
func (s state) adopted() bool {
	return s.link != nil && s.rec.Adopted != nil && s.rec.Adopted.Index == s.link.Index
}

// mine reports whether the link of a row is, or is going to be, of our making.
func (s state) mine(row Link) bool { return row.Type != "" || s.created() }

// isLike reports whether the link is of the type of the row, with its peer. A peer
// that was moved away counts as right.
func (s state) isLike(row Link) bool {
	return s.link.Type == row.Type && (s.peer == "" || s.peer == row.Peer)
}

// row returns what there is as a row.
func (s state) row() Link {
	if s.link == nil {
		return Link{Name: s.name}
	}
	row := Link{Name: s.name, Up: s.link.Up, MTU: s.link.MTU}
	if s.created() {
		row.Type, row.Peer = s.link.Type, s.peer
	}
	return row
}
