package link

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Types of links that the target creates.
const (
	Bridge = "bridge"
	Veth   = "veth"
	Tun    = "tun"
)

// Link is a row of the table: a network link. Without a type it is a link that others create,
// and only its attributes are set.
type Link struct {
	Name string `yaml:"name" json:"name" schema:"required" doc:"Name of the link, as eth0."`
	// Type is Bridge, Veth, Tun or empty.
	Type string `yaml:"type" json:"type,omitempty" schema:"enum=bridge veth tun" doc:"Type of a link that is made; without it the link is one that exists."`
	// Peer is the name of the other end of a veth.
	Peer string `yaml:"peer" json:"peer,omitempty" doc:"Name of the other end of a veth."`
	Up   bool   `yaml:"up" json:"up" doc:"Whether the link is up."`
	// MTU in bytes; 0 leaves it alone.
	MTU uint32 `yaml:"mtu" json:"mtu,omitempty" doc:"MTU in bytes; without it, or 0, it is left alone."`
	// MAC is the hardware address in lower case, as 02:00:00:00:00:01; empty leaves it alone.
	MAC string `yaml:"mac" json:"mac,omitempty" doc:"Hardware address, as 02:00:00:00:00:01; without it, it is left alone."`
	// Master is the name of the bridge that the link is a port of; empty leaves it alone.
	Master string `yaml:"master" json:"master,omitempty" doc:"Name of the bridge that the link is a port of; without it, that is left alone."`
	// Adopt takes over a link of the type that others made.
	Adopt  bool              `yaml:"adopt" json:"adopt,omitempty" doc:"Whether to take over a link of the type that exists and was made by others; it is then deleted with the document."`
	Status reconciler.Status `yaml:"-" json:"status"`
}

// Key identifies a link: its name.
type Key string

// ByKey is the primary index.
var ByKey = statedb.NewIndex("key", Link.Key)

// Schema declares the table "links".
func Schema() statedb.Schema[Link] {
	return reconciler.Reconciled(statedb.Schema[Link]{
		Name: "links", Primary: ByKey, Secondary: []statedb.Indexer[Link]{ByEnd, ByPeer, ByMaster},
	})
}

// Default returns what the missing fields of a document mean: links are up.
func Default() Link { return Link{Up: true} }

// Key returns the name.
func (l Link) Key() Key { return Key(l.Name) }

// GetStatus implements reconciler.Reconcilable.
func (l Link) GetStatus() reconciler.Status { return l.Status }

// WithStatus implements reconciler.Reconcilable.
func (l Link) WithStatus(status reconciler.Status) Link {
	l.Status = status
	return l
}

// Normalized checks the row and returns it as it is stored. Errors are of type
// *reconciler.FieldError.
func (l Link) Normalized() (Link, error) {
	mac, err := normalMAC(l.MAC)
	for _, check := range []struct {
		field string
		err   error
	}{
		{"name", checkName(l.Name)},
		{"type", checkType(l.Type)},
		{"peer", l.checkPeer()},
		{"mtu", checkMTU(l.MTU)},
		{"mac", errors.Join(err, l.checkMAC())},
		{"master", l.checkMaster()},
		{"adopt", l.checkAdopt()},
	} {
		if check.err != nil {
			return l, &reconciler.FieldError{Field: check.field, Err: check.err}
		}
	}
	l.MAC = mac
	return l, nil
}

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(text []byte) error {
	if err := checkName(string(text)); err != nil {
		return err
	}
	*k = Key(text)
	return nil
}

// maxName is the largest length of a name: the kernel's IFNAMSIZ without the final zero byte.
const maxName = 15

// checkName applies the kernel's rules for the name of a link.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("it is missing, expected the name of a link, as eth0")
	case len(name) > maxName:
		return fmt.Errorf("%q has %d bytes, expected at most %d", name, len(name), maxName)
	case name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n\v\f\r\x00%"):
		return fmt.Errorf("%q is not the name of a link: slashes, colons, percent signs and white space cannot be in it", name)
	}
	return nil
}

func checkType(kind string) error {
	switch kind {
	case "", Bridge, Veth, Tun:
		return nil
	}
	return fmt.Errorf("%q is unknown, expected %s, %s or %s, or none for a link that exists", kind, Bridge, Veth, Tun)
}

func (l Link) checkPeer() error {
	switch {
	case l.Type != Veth && l.Peer != "":
		return fmt.Errorf("%q is given, but only links of type %s have a peer", l.Peer, Veth)
	case l.Type != Veth:
		return nil
	case l.Peer == l.Name:
		return fmt.Errorf("%q is the link itself, expected the name of its other end", l.Peer)
	case l.Peer == "":
		return fmt.Errorf("it is missing, expected the name of the other end of the %s", Veth)
	}
	return checkName(l.Peer)
}

func checkMTU(mtu uint32) error {
	const smallest, largest = 68, 1<<31 - 1 // what the kernel allows at all
	if mtu != 0 && (mtu < smallest || mtu > largest) {
		return fmt.Errorf("%d is out of range, expected %d to %d, or 0 to leave it alone", mtu, smallest, largest)
	}
	return nil
}

// normalMAC returns a hardware address in lower case with colons.
func normalMAC(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	mac, err := net.ParseMAC(text)
	switch {
	case err != nil || len(mac) != 6:
		return "", fmt.Errorf("%q is not a hardware address, expected six bytes, as 02:00:00:00:00:01", text)
	case mac[0]&1 != 0:
		return "", fmt.Errorf("%q is a multicast address, expected that of one device: its first byte must be even", text)
	case mac.String() == "00:00:00:00:00:00":
		return "", fmt.Errorf("%q is the address of no device", text)
	}
	return mac.String(), nil
}

func (l Link) checkMAC() error {
	if l.Type == Tun && l.MAC != "" {
		return fmt.Errorf("%q is given, but links of type %s have no hardware address", l.MAC, Tun)
	}
	return nil
}

func (l Link) checkMaster() error {
	switch l.Master {
	case "":
		return nil
	case l.Name:
		return fmt.Errorf("%q is the link itself, expected the name of a %s", l.Master, Bridge)
	case l.Peer:
		return fmt.Errorf("%q is the other end of the link, expected the name of a %s", l.Master, Bridge)
	}
	if l.Type == Bridge || l.Type == Tun {
		return fmt.Errorf("%q is given, but a %s cannot be a port of a %s", l.Master, l.Type, Bridge)
	}
	return checkName(l.Master)
}

func (l Link) checkAdopt() error {
	if l.Adopt && l.Type == "" {
		return errors.New("it is true, but without a type only attributes of an existing link are set: there is nothing to take over")
	}
	return nil
}
