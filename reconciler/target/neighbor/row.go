package neighbor

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// Neighbor is a row of the table: the link-layer address of a host on a device.
type Neighbor struct {
	Device string `yaml:"device" json:"device" schema:"required" doc:"Name of the link that the host is on."`
	// Address is the IP address of the host, without a zone.
	Address netip.Addr `yaml:"address" json:"address" schema:"required" doc:"IP address of the host, without a zone."`
	// MAC is its link-layer address, as 02:00:00:00:00:05.
	MAC string `yaml:"mac" json:"mac" schema:"required" doc:"Link-layer address of the host, as 02:00:00:00:00:05."`
	// Adopt takes over an entry that others made with the key.
	Adopt  bool              `yaml:"adopt" json:"adopt,omitempty" doc:"Take over an entry that somebody else made."`
	Status reconciler.Status `yaml:"-" json:"status"`
}

// Key identifies a neighbor. Its text is "eth0 10.0.0.5".
type Key struct {
	Device  string
	Address netip.Addr
}

// ByKey is the primary index.
var ByKey = statedb.NewIndex("key", Neighbor.Key)

// Schema declares the table "neighbors".
func Schema() statedb.Schema[Neighbor] {
	return reconciler.Reconciled(statedb.Schema[Neighbor]{Name: "neighbors", Primary: ByKey})
}

// Default returns the defaults of fields that a document leaves out.
func Default() Neighbor { return Neighbor{} }

// Key returns device and address.
func (n Neighbor) Key() Key { return Key{n.Device, n.Address} }

// GetStatus implements reconciler.Reconcilable.
func (n Neighbor) GetStatus() reconciler.Status { return n.Status }

// WithStatus implements reconciler.Reconcilable.
func (n Neighbor) WithStatus(status reconciler.Status) Neighbor {
	n.Status = status
	return n
}

// Normalized checks the row and returns it with the link-layer address in the kernel's
// spelling: lower case with colons. Errors are of type *reconciler.FieldError.
func (n Neighbor) Normalized() (Neighbor, error) {
	mac, macErr := parseMAC(n.MAC)
	for _, check := range []struct {
		field string
		err   error
	}{
		{"device", rtnl.CheckName(n.Device)},
		{"address", checkAddress(n.Address)},
		{"mac", macErr},
	} {
		if check.err != nil {
			return n, &reconciler.FieldError{Field: check.field, Err: check.err}
		}
	}
	n.MAC = mac.String()
	return n, nil
}

// hasKey reports whether there can be an entry for the row.
func (n Neighbor) hasKey() bool {
	return rtnl.CheckName(n.Device) == nil && checkAddress(n.Address) == nil
}

func checkAddress(address netip.Addr) error {
	const expected = "expected the address of a host, as 10.0.0.5 or 2001:db8::5"
	switch {
	case !address.IsValid():
		return errors.New("it is missing, " + expected)
	case address.Zone() != "":
		return fmt.Errorf("%s has a zone, expected only the address: the device is a field of its own", address)
	case address.Is4In6():
		return fmt.Errorf("%s is an IPv4 address written as IPv6, %s", address, expected)
	case address.IsUnspecified(), address.IsMulticast():
		return fmt.Errorf("%s is not the address of a host, %s", address, expected)
	}
	return nil
}

func parseMAC(text string) (net.HardwareAddr, error) {
	const expected = "expected a link-layer address, as 02:00:00:00:00:05"
	mac, err := net.ParseMAC(text)
	switch {
	case text == "":
		return nil, errors.New("it is missing, " + expected)
	case err != nil:
		return nil, fmt.Errorf("%q is not a link-layer address, %s", text, expected)
	case bytes.Equal(mac, make([]byte, len(mac))):
		return nil, fmt.Errorf("%s is not the address of a single host, %s", mac, expected)
	}
	return mac, nil
}

// String returns the text form.
func (k Key) String() string { return k.Device + " " + k.Address.String() }

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(text []byte) error {
	device, address, _ := strings.Cut(string(text), " ")
	addr, err := netip.ParseAddr(address)
	if device == "" || err != nil {
		return fmt.Errorf("%q is not the key of a neighbor, expected device and address, as \"eth0 10.0.0.5\"", text)
	}
	*k = Key{device, addr}
	return nil
}
