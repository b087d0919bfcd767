package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/statehive/statehive/reconciler"
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

// ForeignError says which link is not ours. It matches ErrForeign.
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
	link netlink.Link // nil if there is none
	peer string       // of a veth whose other end is in this network namespace
	rec  record
}

func (t *Target) look(ctx context.Context, name string) (state, error) {
	if err := ctx.Err(); err != nil {
		return state{}, err
	}
	s := state{name: name}
	s.rec, _ = t.records.Get(name)
	link, err := t.conn.LinkByName(name)
	if errors.Is(err, syscall.ENODEV) {
		return s, nil
	}
	if err != nil {
		return state{}, err
	}
	s.link = link
	s.peer, err = t.peerOf(link)
	return s, err
}

// lookFor looks at what there is for a row, and refuses what cannot be brought
// about.
func (t *Target) lookFor(ctx context.Context, row Link) (state, error) {
	if _, err := row.Normalized(); err != nil {
		return state{}, reconciler.Terminal(err)
	}
	s, err := t.look(ctx, row.Name)
	switch {
	case err != nil:
		return state{}, err
	case s.link == nil && row.Type == "":
		return state{}, fmt.Errorf("link %s does not exist and has no type to create it with: %w", row.Name, syscall.ENODEV)
	case s.link != nil && row.Type != "" && !s.created():
		return state{}, t.refusal(s)
	}
	return s, nil
}

// refusal says why a link cannot be created: one of its name is there already.
func (t *Target) refusal(s state) error {
	if rec, known := t.records.Get(s.peer); known && rec.Created != nil {
		return fmt.Errorf("link %s is there already, as the other end of %s, which was created with its own row: leave out the type: %w", s.name, s.peer, ErrForeign)
	}
	return &ForeignError{Name: s.name, Type: s.link.Type()}
}

// peerOf returns the name of a veth's other end. It is empty when that is in
// another network namespace, where it cannot be looked at.
func (t *Target) peerOf(link netlink.Link) (string, error) {
	attrs := link.Attrs()
	if link.Type() != Veth || attrs.ParentIndex == 0 || attrs.NetNsID >= 0 {
		return "", nil
	}
	peer, err := t.conn.LinkByIndex(attrs.ParentIndex)
	if errors.Is(err, syscall.ENODEV) {
		return "", nil // it was just moved or deleted
	}
	if err != nil {
		return "", err
	}
	return peer.Attrs().Name, nil
}

// created says whether the link is there and one that we created. It has the
// alias, or the hardware address of the record if we died before setting it.
func (s state) created() bool {
	if s.link == nil || s.rec.Created == nil {
		return false
	}
	attrs := s.link.Attrs()
	return attrs.Alias == alias || attrs.HardwareAddr.String() == s.rec.Created.MAC
}

// adopted says whether the link is there and the very one whose attributes we
// recorded.
func (s state) adopted() bool {
	return s.link != nil && s.rec.Adopted != nil && s.rec.Adopted.Index == s.index()
}

// mine says whether the link of a row is, or is going to be, of our making.
func (s state) mine(row Link) bool { return row.Type != "" || s.created() }

// isLike says whether the link is of the type of the row, with its peer. A peer
// that was moved away counts as right.
func (s state) isLike(row Link) bool {
	return s.link.Type() == row.Type && (s.peer == "" || s.peer == row.Peer)
}

func (s state) index() int { return s.link.Attrs().Index }

func (s state) up() bool { return s.link.Attrs().Flags&net.FlagUp != 0 }

func (s state) mtu() uint32 { return uint32(s.link.Attrs().MTU) }

// row returns what there is as a row.
func (s state) row() Link {
	if s.link == nil {
		return Link{Name: s.name}
	}
	row := Link{Name: s.name, Up: s.up(), MTU: s.mtu()}
	if s.created() {
		row.Type, row.Peer = s.link.Type(), s.peer
	}
	return row
}
