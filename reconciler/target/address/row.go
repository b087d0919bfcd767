package address

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Address is the row: an address that a device shall have.
type Address struct {
	Device string `yaml:"device" json:"device" schema:"required" doc:"Name of the link that has the address."`
	// Address of the host, with the length of its network's prefix: 10.0.0.5/24.
	Address netip.Prefix      `yaml:"address" json:"address" schema:"required" doc:"Address with the length of its prefix, as 192.0.2.2/24."`
	Status  reconciler.Status `yaml:"-" json:"status"`
}

// Key identifies an address. Its text is "eth0 10.0.0.5/24".
type Key struct {
	Device  string
	Address netip.Prefix
}

// ByKey is the primary index.
var ByKey = statedb.NewIndex("key", Address.Key)

// Schema declares the table "addresses".
func Schema() statedb.Schema[Address] {
	return reconciler.Reconciled(statedb.Schema[Address]{
		Name: "addresses", Primary: ByKey, Secondary: []statedb.Indexer[Address]{ByHost, ByNetwork},
	})
}

// Default returns what the missing fields of a document mean.
func Default() Address { return Address{} }

// Key returns device and address.
func (a Address) Key() Key { return Key{a.Device, a.Address} }

// GetStatus implements reconciler.Reconcilable.
func (a Address) GetStatus() reconciler.Status { return a.Status }

// WithStatus implements reconciler.Reconcilable.
func (a Address) WithStatus(status reconciler.Status) Address {
	a.Status = status
	return a
}

// Normalized checks the row and returns it. Errors are of type
// *reconciler.FieldError.
func (a Address) Normalized() (Address, error) {
	if err := checkDevice(a.Device); err != nil {
		return a, &reconciler.FieldError{Field: "device", Err: err}
	}
	if err := checkAddress(a.Address); err != nil {
		return a, &reconciler.FieldError{Field: "address", Err: err}
	}
	return a, nil
}

func checkDevice(device string) error {
	if device == "" {
		return errors.New("it is missing, expected the name of a link, as eth0")
	}
	if strings.ContainsAny(device, " \t\n/") {
		return fmt.Errorf("%q is not the name of a link", device)
	}
	return nil
}

func checkAddress(address netip.Prefix) error {
	const expected = "expected an address with the length of its prefix, as 10.0.0.5/24 or 2001:db8::5/64"
	switch {
	case !address.IsValid():
		return errors.New("it is missing, " + expected)
	case address.Addr().Is4In6():
		return fmt.Errorf("%s is an IPv4 address written as IPv6, %s", address, expected)
	case address.Addr().IsUnspecified(), address.Addr().IsMulticast():
		return fmt.Errorf("%s is not the address of a host, %s", address, expected)
	}
	return nil
}

// String returns the text form.
func (k Key) String() string { return k.Device + " " + k.Address.String() }

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(text []byte) error {
	words := strings.Fields(string(text))
	if len(words) != 2 {
		return fmt.Errorf("%q is not the key of an address, expected device and address, as \"eth0 10.0.0.5/24\"", text)
	}
	prefix, err := netip.ParsePrefix(words[1])
	if err != nil {
		return fmt.Errorf("%q is not an address with the length of its prefix: %w", words[1], err)
	}
	*k = Key{words[0], prefix}
	return nil
}
