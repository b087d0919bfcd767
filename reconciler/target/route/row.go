package route

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/immutable"
)

// Route is a row of the table: a route through a gateway, a device or both, a route through
// several next hops, or a route that drops or refuses packets.
type Route struct {
	Destination Destination `yaml:"destination" json:"destination" schema:"required" doc:"A prefix, as 10.10.0.0/16, or default."`
	// Family is only needed for a default route without a gateway.
	Family  Family     `yaml:"family" json:"family,omitempty" schema:"enum=inet inet6" doc:"Family, needed for a default route without a gateway."`
	Gateway netip.Addr `yaml:"gateway" json:"gateway,omitzero" doc:"Address of the router; without it the destination is on the link."`
	Device  string     `yaml:"device" json:"device,omitempty" doc:"Name of the link; if it is left out, the one that leads to the gateway."`
	// Nexthops share the packets, in place of Gateway and Device. Their order does not
	// matter.
	Nexthops immutable.List[Nexthop] `yaml:"nexthops" json:"nexthops,omitzero" doc:"Several next hops that share the packets, in place of gateway and device."`
	// Source is the source address of packets that this machine sends.
	Source netip.Addr `yaml:"source" json:"source,omitzero" doc:"Source address of packets that this machine sends."`
	// Metric orders routes to one destination, the lowest first; 0 leaves the choice
	// to the kernel.
	Metric uint32 `yaml:"metric" json:"metric,omitempty" doc:"Of several routes to one destination the one with the lowest metric is used; 0 leaves the choice to the kernel."`
	Table  Table  `yaml:"table" json:"table" doc:"Routing table: main, local, default or a number."` // 0 is MainTable
	// MTU is the size of the largest packet in bytes; 0 means the MTU of the device.
	MTU  uint32 `yaml:"mtu" json:"mtu,omitempty" doc:"Size of the largest packet in bytes; that of the link if it is left out."`
	Type Type   `yaml:"type" json:"type,omitzero" doc:"What happens to packets; unicast if it is left out. Other types have no gateway and no device."`
	// Scope of an IPv4 route. If none is given, it is link without a gateway, else global.
	Scope rtnl.Scope `yaml:"scope" json:"scope,omitzero" doc:"Scope of an IPv4 route: global, link, host or a number; if it is left out, link without a gateway, else global."`
	// Adopt takes over others' routes with the key.
	Adopt  bool              `yaml:"adopt" json:"adopt,omitempty" doc:"Take over a route that somebody else made."`
	Status reconciler.Status `yaml:"-" json:"status"`
}

// ByKey is the primary index.
var ByKey = statedb.NewIndex("key", Route.Key)

// Schema declares the table "routes".
func Schema() statedb.Schema[Route] {
	return reconciler.Reconciled(statedb.Schema[Route]{
		Name: "routes", Primary: ByKey, Secondary: []statedb.Indexer[Route]{ByTable, ByUndone, ByNetwork},
	})
}

// Default returns the defaults of fields that a document leaves out: the table main.
func Default() Route { return Route{Table: MainTable} }

// Key returns the key of the route in the kernel. The row need not be normalized; if it lacks
// a part of the key, the result is a key that no route of the kernel has.
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

// completed fills in the values that other fields or the kernel determine.
func (r Route) completed() Route {
	if r.Family == "" {
		r.Family = familyOf(r.Destination.prefix.Addr())
	}
	if r.Family == "" {
		r.Family = familyOf(r.Gateway)
	}
	if r.Family == "" && r.Destination.isDefault {
		r.Family = r.familyOfDefault()
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

// familyOfDefault returns the family of a default route that does not give its family.
func (r Route) familyOfDefault() Family {
	for _, hop := range r.Nexthops.All() {
		if hop.Gateway.IsValid() {
			return familyOf(hop.Gateway)
		}
	}
	if r.Source.IsValid() {
		return familyOf(r.Source)
	}
	return Inet
}

// Normalized checks the row and returns it with family, table, metric, the prefix of a
// default and the weights of next hops filled in. A single next hop becomes the gateway
// and the device. Errors are of type *reconciler.FieldError.
func (r Route) Normalized() (Route, error) {
	n := r.completed()
	for _, check := range []struct {
		field string
		err   error
	}{
		{"destination", checkDestination(n.Destination)},
		{"type", n.Type.check()},
		{"family", n.checkFamily()},
		{"gateway", n.checkAddress(n.Gateway)},
		{"source", n.checkAddress(n.Source)},
		{"device", n.checkDevice()},
		{"mtu", n.checkMTU()},
		{"scope", n.checkScope()},
	} {
		if check.err != nil {
			return r, &reconciler.FieldError{Field: check.field, Err: check.err}
		}
	}
	if n.Type != Unicast || !n.Nexthops.IsZero() {
		if err := errors.Join(n.checkAlone(), n.checkNexthops()); err != nil {
			return r, err
		}
		n = n.withNexthops()
	}
	if n.Family == Inet6 {
		n.Scope = rtnl.Scope{}
	}
	return n, nil
}

// withNexthops completes next hops. To the kernel a list of one is the same as none.
func (r Route) withNexthops() Route {
	if hops := r.Nexthops.Slice(); len(hops) == 1 {
		r.Gateway, r.Device, r.Nexthops = hops[0].Gateway, hops[0].Device, immutable.List[Nexthop]{}
		return r
	}
	r.Nexthops = withWeights(r.Nexthops)
	return r
}

// checkAlone refuses fields that exclude each other.
func (r Route) checkAlone() error {
	with := "nexthops"
	if r.Type != Unicast {
		with = "type " + r.Type.String()
	}
	special := r.Type != Unicast
	for _, field := range []struct {
		name  string
		given bool
	}{
		{"gateway", r.Gateway.IsValid()},
		{"device", r.Device != ""},
		{"nexthops", special && !r.Nexthops.IsZero()},
		{"source", special && r.Source.IsValid()},
		{"mtu", special && r.MTU != 0},
		{"scope", special && !r.Scope.IsZero()},
	} {
		if field.given {
			return &reconciler.FieldError{Field: field.name, Err: fmt.Errorf("it cannot be combined with %s, expected one of the two", with)}
		}
	}
	return nil
}

func checkDestination(d Destination) error {
	const expected = "expected a prefix, as 10.10.0.0/16, or default"
	switch {
	case !d.prefix.IsValid():
		return errors.New("it is missing, " + expected)
	case d.prefix.Addr().Is4In6():
		return fmt.Errorf("%s is an IPv4 prefix written as IPv6, %s", d, expected)
	case d.prefix != d.prefix.Masked():
		return fmt.Errorf("%s has bits set beyond its prefix length, expected %s", d, d.prefix.Masked())
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
		return fmt.Errorf("%s has a zone, expected only the address: the device is a field of its own", addr)
	case addr.Is4In6() || familyOf(addr) != r.Family:
		return fmt.Errorf("%s is not of the family of destination %s, expected an address of %s", addr, r.Destination, r.Family)
	case addr.IsUnspecified():
		return fmt.Errorf("%s is not the address of a host", addr)
	}
	return nil
}

func (r Route) checkDevice() error {
	if r.Device == "" && !r.Gateway.IsValid() && r.Nexthops.IsZero() && r.Type == Unicast {
		return errors.New("it is missing, expected the name of a link, as eth0, or a gateway")
	}
	return checkDevice(r.Device)
}

// checkDevice returns an error unless device may name a link, or is left out.
func checkDevice(device string) error {
	if device == "" {
		return nil
	}
	return rtnl.CheckName(device)
}

// checkMTU refuses an MTU that the kernel would change or that IPv6 forbids.
func (r Route) checkMTU() error {
	least, most := uint32(68), uint32(65520)
	if r.Family == Inet6 {
		least = 1280
	}
	if r.MTU != 0 && (r.MTU < least || r.MTU > most) {
		return fmt.Errorf("%d is not the size of a packet, expected a number from %d to %d", r.MTU, least, most)
	}
	return nil
}

func (r Route) checkScope() error {
	if r.Family == Inet6 && !r.Scope.IsZero() && r.Scope != rtnl.GlobalScope {
		return fmt.Errorf("IPv6 routes have no scope, expected the field left out instead of %s", r.Scope)
	}
	return nil
}

// scope returns the scope to tell the kernel.
func (r Route) scope() rtnl.Scope {
	if r.Family == Inet && r.Type == Unicast && r.Nexthops.IsZero() && !r.Gateway.IsValid() {
		return rtnl.ScopeOf(r.Scope.Number(rtnl.LinkScope.Number(0)))
	}
	return rtnl.ScopeOf(r.Scope.Number(0))
}
