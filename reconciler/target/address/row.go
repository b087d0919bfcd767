package address

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// Address is a row of the table: an address of a device.
type Address struct {
	Device string `yaml:"device" json:"device" schema:"required" doc:"Name of the link that has the address."`
	// Address of the host with the prefix length of its network, as 10.0.0.5/24.
	Address netip.Prefix `yaml:"address" json:"address" schema:"required" doc:"Address with its prefix length, as 192.0.2.2/24."`
	// Scope of an IPv4 address; global if none is given.
	Scope rtnl.Scope `yaml:"scope" json:"scope,omitzero" doc:"Scope of an IPv4 address: global, link, host or a number; global if it is left out."`
	// ValidLifetime is how long the address stays after its lifetimes were last renewed,
	// and PreferredLifetime how long new connections use it. They are renewed when
	// half of the shorter one has passed, so they only expire if nobody applies the row. By
	// default the address is valid forever, and preferred for as long as it is valid.
	ValidLifetime     Lifetime `yaml:"validLifetime" json:"validLifetime,omitzero" doc:"How long the address stays after the agent has stopped, as 3600s; forever if it is left out."`
	PreferredLifetime Lifetime `yaml:"preferredLifetime" json:"preferredLifetime,omitzero" doc:"How long new connections use the address after the agent has stopped, as 1800s; as long as it is valid if it is left out."`
	// Adopt takes over an address that existed before: it is removed with the row.
	Adopt  bool              `yaml:"adopt" json:"adopt,omitempty" doc:"Take over an address that existed before."`
	Status reconciler.Status `yaml:"-" json:"status"`
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
		Name: "addresses", Primary: ByKey, Secondary: []statedb.Indexer[Address]{ByHost, ByDevice, ByNetwork},
	})
}

// Default returns the defaults of fields that a document leaves out.
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
	for _, check := range []struct {
		field string
		err   error
	}{
		{"device", rtnl.CheckName(a.Device)},
		{"address", checkAddress(a.Address)},
		{"scope", a.checkScope()},
		{"validLifetime", a.checkValid()},
		{"preferredLifetime", a.checkPreferred()},
	} {
		if check.err != nil {
			return a, &reconciler.FieldError{Field: check.field, Err: check.err}
		}
	}
	if a.Address.Addr().Is6() {
		a.Scope = rtnl.Scope{}
	}
	return a, nil
}

// lifetimes returns the lifetimes to pass to the kernel.
func (a Address) lifetimes() lifetimes {
	valid := a.ValidLifetime.or(Forever)
	return lifetimes{valid: valid, preferred: a.PreferredLifetime.or(valid)}
}

// checkScope refuses a scope that the kernel would ignore.
func (a Address) checkScope() error {
	addr := a.Address.Addr()
	if a.Scope.IsZero() || !addr.Is6() {
		return nil
	}
	actual := rtnl.GlobalScope
	switch {
	case addr.IsLoopback():
		actual = rtnl.HostScope
	case addr.IsLinkLocalUnicast():
		actual = rtnl.LinkScope
	}
	if a.Scope != actual {
		return fmt.Errorf("the scope of an IPv6 address follows from the address: expected %s instead of %s, or the field left out", actual, a.Scope)
	}
	return nil
}

func (a Address) checkValid() error {
	if a.ValidLifetime == LifetimeOf(0) {
		return errors.New("it is 0s, expected more, or forever")
	}
	return nil
}

func (a Address) checkPreferred() error {
	l := a.lifetimes()
	switch {
	case l.preferred.seconds > l.valid.seconds:
		return fmt.Errorf("%s is longer than validLifetime, expected at most %s", l.preferred, l.valid)
	case a.Address.Addr().Is4() && l.valid == Forever && l.preferred != Forever && l.preferred.seconds != 0:
		return errors.New("the kernel ignores it for an IPv4 address that is valid forever: expected forever or 0s, or a validLifetime")
	}
	return nil
}

func checkAddress(address netip.Prefix) error {
	const expected = "expected an address with its prefix length, as 10.0.0.5/24 or 2001:db8::5/64"
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
		return fmt.Errorf("%q is not an address with its prefix length: %w", words[1], err)
	}
	*k = Key{words[0], prefix}
	return nil
}
