package route

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Route is the row: a route by a gateway, a device or both.
type Route struct {
	Destination Destination `yaml:"destination" json:"destination" schema:"required" doc:"A prefix, as 10.10.0.0/16, or default."`
	// Family is needed for a default route without a gateway only.
	Family  Family     `yaml:"family" json:"family,omitempty" schema:"enum=inet inet6" doc:"Family, of a default route without a gateway."`
	Gateway netip.Addr `yaml:"gateway" json:"gateway,omitzero" doc:"Address of the router; without it the destination is on the link."`
	Device  string     `yaml:"device" json:"device,omitempty" doc:"Name of the link; without it that which leads to the gateway."`
	// Source is the address that this machine's own packets get.
	Source netip.Addr `yaml:"source" json:"source,omitzero" doc:"Source address of the packets of this machine."`
	// Metric orders routes to one destination, the lowest first; 0 is the
	// kernel's own choice.
	Metric uint32            `yaml:"metric" json:"metric,omitempty" doc:"Of routes to one destination the one with the lowest metric counts; 0 is the choice of the kernel."`
	Table  Table             `yaml:"table" json:"table" doc:"Routing table: main, local, default or a number."` // 0 is MainTable
	Status reconciler.Status `yaml:"-" json:"status"`
}

// ByKey is the primary index.
var ByKey = statedb.NewIndex("key", Route.Key)

// Schema declares the table "routes".
func Schema() statedb.Schema[Route] {
	return reconciler.Reconciled(statedb.Schema[Route]{
		Name: "routes", Primary: ByKey, Secondary: []statedb.Indexer[Route]{ByTable},
	})
}

// Default returns what the missing fields of a document mean: the table main.
func Default() Route { return Route{Table: MainTable} }

// Key returns what identifies the route in the kernel. The row need not be
// normalized; one that lacks what the key needs has a key that no kernel's
// route has.
func (r Route) Key() Key {
	r = r.completed()
	return Key{r.Destination.prefix.Masked(), r.Table, r.Metric}
}

// GetStatus implements reconciler.Reconcilable.
func (r Route) GetStatus() reconciler.Status { return r.Status }

// WithStatus implements reconciler.Reconcilable.
func (r Route) WithStatus(status reconciler.Status) Route {
	r.Status = status
	return r
}

// completed fills in what other fields or the kernel decide.
func (r Route) completed() Route {
	if r.Family == "" {
		r.Family = familyOf(r.Destination.prefix.Addr())
	}
	if r.Family == "" {
		r.Family = familyOf(r.Gateway)
	}
	if r.Family == "" && r.Destination.isDefault {
		r.Family = familyOf(r.Source)
	}
	if r.Family == "" && r.Destination.isDefault {
		r.Family = Inet
	}
	r.Destination = r.Destination.of(r.Family)
	if r.Metric == 0 {
		r.Metric = usualMetric(r.Family)
	}
	if r.Table == 0 {
		r.Table = MainTable
	}
	return r
}

// Normalized checks the row and returns it with family, table, metric and the
// prefix of a default filled in. Errors are of type *reconciler.FieldError.
func (r Route) Normalized() (Route, error) {
	n := r.completed()
	for _, check := range []struct {
		field string
		err   error
	}{
		{"destination", checkDestination(n.Destination)},
		{"family", n.checkFamily()},
		{"gateway", n.checkAddress(n.Gateway)},
		{"source", n.checkAddress(n.Source)},
		{"device", n.checkDevice()},
	} {
		if check.err != nil {
			return r, &reconciler.FieldError{Field: check.field, Err: check.err}
		}
	}
	return n, nil
}

func checkDestination(d Destination) error {
	const expected = "expected a prefix, as 10.10.0.0/16, or default"
	switch {
	case !d.prefix.IsValid():
		return errors.New("it is missing, " + expected)
	case d.prefix.Addr().Is4In6():
		return fmt.Errorf("%s is an IPv4 prefix written as IPv6, %s", d, expected)
	case d.prefix != d.prefix.Masked():
		return fmt.Errorf("%s has bits set behind its length, expected %s", d, d.prefix.Masked())
	}
	return nil
}

func (r Route) checkFamily() error {
	switch r.Family {
	case Inet, Inet6:
	default:
		return fmt.Errorf("%q is unknown, expected %s or %s", r.Family, Inet, Inet6)
	}
	if actual := familyOf(r.Destination.prefix.Addr()); actual != r.Family {
		return fmt.Errorf("%s is not the family of destination %s, expected %s", r.Family, r.Destination, actual)
	}
	return nil
}

func (r Route) checkAddress(addr netip.Addr) error {
	switch {
	case !addr.IsValid():
		return nil
	case addr.Zone() != "":
		return fmt.Errorf("%s has a zone, expected the address alone: the device is a field of its own", addr)
	case addr.Is4In6() || familyOf(addr) != r.Family:
		return fmt.Errorf("%s is not of the family of destination %s, expected an address of %s", addr, r.Destination, r.Family)
	case addr.IsUnspecified():
		return fmt.Errorf("%s is not the address of a host", addr)
	}
	return nil
}

func (r Route) checkDevice() error {
	switch {
	case r.Device == "" && !r.Gateway.IsValid():
		return errors.New("it is missing, expected the name of a link, as eth0, or a gateway")
	case strings.ContainsAny(r.Device, " \t\n/"):
		return fmt.Errorf("%q is not the name of a link", r.Device)
	}
	return nil
}
