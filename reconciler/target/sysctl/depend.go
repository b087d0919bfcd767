package sysctl

import (
	"iter"
	"slices"
	"strings"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/procsys"
	"github.com/statehive/statehive/statedb"
)

// The names that stand for all devices, and for those that will be made, in place of the name of a device.
const (
	allDevices    = "all"
	defaultDevice = "default"
)

// Device returns the name of the device that a sysctl belongs to, such as
// eth0 for net.ipv4.conf.eth0.forwarding; empty if it belongs to none.
func (s Sysctl) Device() string {
	if scope := s.scope(); scope != allDevices && scope != defaultDevice {
		return scope
	}
	return ""
}

// scope returns what a name has in the place of a device; empty if it has no such place.
func (s Sysctl) scope() string {
	name, err := dotted(s.Name)
	if err != nil {
		return ""
	}
	parts := strings.Split(procsys.PathOf(name), "/")
	if len(parts) < 5 || parts[0] != "net" || parts[2] != "conf" && parts[2] != "neigh" {
		return ""
	}
	return parts[3]
}

// MTUOf returns the name of the sysctl with the IPv6 MTU of a device.
func MTUOf(device string) Key {
	return Key(procsys.NameOf("net/ipv6/conf/" + device + "/mtu"))
}

// ByDevice finds the sysctls of a device, by its name.
var ByDevice = statedb.NewMultiIndex("device", func(s Sysctl) iter.Seq[string] {
	if device := s.Device(); device != "" {
		return slices.Values([]string{device})
	}
	return nil
})

// Others, for example net.ipv6.conf.all.forwarding, change the sysctls of all devices, or of those for which they were never
// written. So the sysctls that can change along with others are checked when one of those others was written.

// byInherits finds the sysctls that change along with others.
var byInherits = statedb.NewMultiIndex("inherits", func(s Sysctl) iter.Seq[bool] {
	// What the kernel changes along with a sysctl that inherits never changes that sysctl, so this has an end.
	if s.scope() != "" && !isForwarding(string(s.Key())) {
		return slices.Values([]bool{true})
	}
	return nil
})

// isForwarding reports whether a sysctl turns on forwarding as a whole.
func isForwarding(name string) bool {
	return name == forwarding || name == "net.ipv6.conf.all.forwarding"
}

// copied are the parameters that the kernel copies from all devices to each, by family.
var copied = map[string][]string{
	"ipv4": {"forwarding"}, "ipv6": {"forwarding", "force_forwarding", "disable_ipv6", "ignore_routes_with_linkdown", "addr_gen_mode"},
}

// ofAll returns the name of the sysctl of all devices that the kernel copies to the one of a device, or "".
func (s Sysctl) ofAll() string {
	name, err := dotted(s.Name)
	parts := strings.Split(procsys.PathOf(name), "/")
	if err != nil || s.scope() == "" || s.scope() == allDevices || parts[2] != "conf" || !slices.Contains(copied[parts[1]], parts[4]) {
		return ""
	}
	if parts[1] == "ipv4" {
		return forwarding
	}
	parts[3] = allDevices
	return procsys.NameOf(strings.Join(parts, "/"))
}

// changesOthers reports whether others change along with a sysctl.
func changesOthers(name string) bool {
	scope := Sysctl{Name: name}.scope()
	return isForwarding(name) || scope == allDevices || scope == defaultDevice
}

// Related has sysctls checked after others were written that may have changed them. It is for one reconciler.
func (t *Target) Related() reconciler.Related[Sysctl] {
	return reconciler.Events(t.changed, func(statedb.ReadTxn, struct{}) iter.Seq[statedb.Query[Sysctl]] {
		return slices.Values([]statedb.Query[Sysctl]{byInherits.Query(true)})
	})
}

// set writes a parameter, and has others checked if its value has changed. It may stay the same, because the kernel normalizes
// what is written: then the row is in error, and an event would only have it tried again at once.
func (t *Target) set(name, value string) error {
	if !changesOthers(name) {
		return t.files.Write(name, value)
	}
	was, unread := t.files.Read(name)
	if err := t.files.Write(name, value); err != nil {
		return err
	}
	if is, err := t.files.Read(name); err == nil && unread == nil && is == was {
		return nil
	}
	select {
	case t.changed <- struct{}{}:
	default: // an event that has not been received yet will do for this change too
	}
	return nil
}
