package address

import (
	"errors"
	"iter"
	"net/netip"
	"slices"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/statedb"
)

// Network is the network of an address of a device.
type Network struct {
	Device string // empty for any device
	Prefix netip.Prefix
}

// ByHost finds rows by the address without its prefix length.
var ByHost = statedb.NewIndex("host", func(a Address) netip.Addr { return a.Address.Addr() })

// Device is the device of addresses of a family.
type Device struct {
	Name string
	IPv6 bool
}

// ByDevice finds rows by their device and family.
var ByDevice = statedb.NewIndex("device", func(a Address) Device { return Device{a.Device, a.Address.Addr().Is6()} })

// HasIPv4 reports whether a device has a declared IPv4 address that has been applied.
func HasIPv4(txn statedb.ReadTxn, addresses *statedb.Table[Address], device string) bool {
	for a := range addresses.List(txn, ByDevice.Query(Device{Name: device})) {
		if a.Status.Kind() == reconciler.Done {
			return true
		}
	}
	return false
}

// DeletedAfter makes IPv4 addresses stay until others are added, if those of their device, or of their network, are all pending: with
// the last IPv4 address of a device the kernel removes all of its IPv4 routes, no matter who made them. IPv6 addresses that the kernel uses
// stay until it uses the others of their device or network, one of which may be in their place: it may still find that another host has that.
func DeletedAfter(
	db *statedb.DB, devices link.Devices, addresses *statedb.Table[Address], seen *statedb.Table[Seen], observed reconciler.Observation[Address],
) []reconciler.Dependency[Address] {
	others := func(named func(Address) statedb.Query[Address]) reconciler.Dependency[Address] {
		return reconciler.DependsOn(addresses, Address.GetStatus, func(a Address) iter.Seq[statedb.Query[Address]] {
			if a.Address.Addr().Is6() {
				return nil
			}
			return slices.Values([]statedb.Query[Address]{named(a)})
		}, observed).OneOf(nil)
	}
	return []reconciler.Dependency[Address]{
		others(func(a Address) statedb.Query[Address] { return ByDevice.Query(Device{Name: a.Device}) }),
		others(func(a Address) statedb.Query[Address] { return ByNetwork.Query(Network{a.Device, a.Address.Masked()}) }),
		deletedAfterUsable(db, addresses, seen),
		deletedAfterTentative(db, devices, addresses, seen),
	}
}

// isUsed reports whether the kernel uses the address of a row.
func isUsed(txn statedb.ReadTxn, seen *statedb.Table[Seen], a Address) bool {
	for s := range seen.List(txn, SeenByName.Query(a.Key())) {
		if s.isUsable() {
			return true
		}
	}
	return false
}

// awaited returns a status with which deletes wait for a row, or do not wait. One that is done waits for the kernel.
func awaited(s reconciler.Status, waits bool) reconciler.Status {
	switch {
	case !waits:
		return s.After(nil, s.Since())
	case s.Kind() == reconciler.Done:
		return reconciler.Status{}
	}
	return s
}

// deletedAfterTentative makes IPv6 addresses that the kernel uses stay while it looks for duplicates of others of their network, on any device
// with a carrier, or has found some. Link-local networks of different devices have nothing to do with each other.
func deletedAfterTentative(
	db *statedb.DB, devices link.Devices, addresses *statedb.Table[Address], seen *statedb.Table[Seen],
) reconciler.Dependency[Address] {
	waits := func(txn statedb.ReadTxn, a Address) bool {
		switch a.Status.Kind() {
		case reconciler.Done, reconciler.Pending:
			return devices.IsRunning(txn, a.Device) && !isUsed(txn, seen, a)
		case reconciler.Error:
			return errors.Is(a.Status.Err(), ErrDuplicate) && !isUsed(txn, seen, a)
		}
		return false
	}
	type network struct {
		netip.Prefix
		links statedb.Revision // with other links, other devices may have a carrier
	}
	return reconciler.DependsOnBy(addresses, func(a Address) reconciler.Status {
		return awaited(a.Status, waits(db.ReadTxn(), a))
	}, func(a Address) network {
		txn := db.ReadTxn()
		if addr := a.Address.Addr(); addr.Is4() || addr.IsLinkLocalUnicast() || !isUsed(txn, seen, a) {
			return network{}
		}
		return network{a.Address.Masked(), devices.Revision(txn)}
	}, func(n network) iter.Seq[statedb.Query[Address]] {
		if !n.IsValid() {
			return nil
		}
		return slices.Values([]statedb.Query[Address]{ByNetwork.Query(Network{Prefix: n.Prefix})})
	}, reconciler.Observes(seen, rowsOf, func(txn statedb.ReadTxn, a Address) []reconciler.Change {
		if waits(txn, a) {
			return []reconciler.Change{{Field: "address", Want: a.Address.String()}}
		}
		return nil
	})).OrFailed()
}

// deletedAfterUsable makes IPv6 addresses that the kernel uses stay while others of their device are pending, or are done while the kernel
// still looks for duplicates, or has found some.
func deletedAfterUsable(
	db *statedb.DB, addresses *statedb.Table[Address], seen *statedb.Table[Seen],
) reconciler.Dependency[Address] {
	isUsed := func(a Address) bool { return isUsed(db.ReadTxn(), seen, a) }
	status := func(a Address) reconciler.Status {
		return awaited(a.Status, !isUsed(a) && (a.Status.Kind() != reconciler.Error || errors.Is(a.Status.Err(), ErrDuplicate)))
	}
	by := func(a Address) Device {
		if a.Address.Addr().Is4() || !isUsed(a) {
			return Device{}
		}
		return Device{a.Device, true}
	}
	return reconciler.DependsOnBy(addresses, status, by, func(d Device) iter.Seq[statedb.Query[Address]] {
		if d.Name == "" {
			return nil
		}
		return slices.Values([]statedb.Query[Address]{ByDevice.Query(d)})
	}, reconciler.Observes(seen, rowsOf, func(_ statedb.ReadTxn, a Address) []reconciler.Change {
		if isUsed(a) {
			return nil
		}
		return []reconciler.Change{{Field: "address", Want: a.Address.String()}}
	})).OrFailed()
}

// Serves returns a function that reports whether an address can lead to gateways: its link is up and the kernel uses it.
func Serves(devices link.Devices, seen *statedb.Table[Seen]) func(statedb.ReadTxn, Address) bool {
	return func(txn statedb.ReadTxn, a Address) bool {
		return devices.IsUp(txn, a.Device) && len(unusable(txn, seen, a)) == 0
	}
}

// Reaches returns a function that reports whether the kernel reaches the network of an address through its device, by this address or another one.
func Reaches(seen *statedb.Table[Seen]) func(statedb.ReadTxn, Address) bool {
	return func(txn statedb.ReadTxn, a Address) bool {
		for range seen.List(txn, seenByNetwork.Query(Network{a.Device, a.Address.Masked()})) {
			return true
		}
		return false
	}
}

// UsesHost returns a function that reports whether the kernel uses an address, on any device.
func UsesHost(seen *statedb.Table[Seen]) func(statedb.ReadTxn, Address) bool {
	return func(txn statedb.ReadTxn, a Address) bool {
		for s := range seen.List(txn, SeenByHost.Query(a.Address.Addr())) {
			if s.isUsable() {
				return true
			}
		}
		return false
	}
}

// ByNetwork finds rows by their network, both with and without their device.
var ByNetwork = statedb.NewMultiIndex("network", func(a Address) iter.Seq[Network] {
	prefix := a.Address.Masked()
	return slices.Values([]Network{{a.Device, prefix}, {"", prefix}})
})

// Containing yields queries for the rows whose networks contain an address. It yields rows
// of a device or, if device is empty, of any device. See [Networks].
func Containing(device string, addr netip.Addr) iter.Seq[statedb.Query[Address]] {
	return func(yield func(statedb.Query[Address]) bool) {
		for prefix := range Networks(addr) {
			if !yield(ByNetwork.Query(Network{device, prefix})) {
				return
			}
		}
	}
}

// Networks yields the networks that may contain an address. It skips prefix lengths that
// networks of hosts do not have: in IPv4 lengths below 8, in IPv6 lengths below 32.
func Networks(addr netip.Addr) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		for bits := 8; bits <= addr.BitLen(); bits++ {
			if addr.Is6() && bits < 32 {
				continue
			}
			prefix, _ := addr.Prefix(bits) // bits are in range
			if !yield(prefix) {
				return
			}
		}
	}
}

// RemovedFirst returns a function that yields the rows of a removed IPv6 address with another prefix length: a device can have only one.
func RemovedFirst(addresses *statedb.Table[Address]) func(txn statedb.ReadTxn, was Address) iter.Seq[statedb.Query[Address]] {
	return func(txn statedb.ReadTxn, was Address) iter.Seq[statedb.Query[Address]] {
		if was.Address.Addr().Is4() {
			return nil
		}
		return func(yield func(statedb.Query[Address]) bool) {
			for a := range addresses.List(txn, ByHost.Query(was.Address.Addr())) {
				if a.Device == was.Device && !yield(ByKey.Query(a.Key())) {
					return
				}
			}
		}
	}
}
