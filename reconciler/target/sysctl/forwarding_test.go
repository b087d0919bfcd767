package sysctl

import (
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

// What is set for all devices, the kernel sets for each. If others do so while a document declares the value of one device, its
// earlier value is not what it would have without the document.
func TestWhatOthersSetForAllDevicesStays(t *testing.T) {
	const ipv6 = "net.ipv6.conf.all.forwarding"
	for name, c := range map[string]struct {
		all, device   string
		declared      string
		before, after string // the value of all
		exchange      bool   // for a document of all devices
	}{
		"turned on":                               {all: forwarding, device: "net.ipv4.conf.e0.forwarding", declared: "1", before: "0", after: "1"},
		"turned on, declared to be off":           {all: forwarding, device: "net.ipv4.conf.e0.forwarding", declared: "0", before: "0", after: "1"},
		"turned off":                              {all: forwarding, device: "net.ipv4.conf.e0.forwarding", declared: "1", before: "1", after: "0"},
		"turned on, exchanged":                    {all: forwarding, device: "net.ipv4.conf.e0.forwarding", declared: "1", before: "0", after: "1", exchange: true},
		"IPv6 turned on":                          {all: ipv6, device: "net.ipv6.conf.e0.forwarding", declared: "1", before: "0", after: "1"},
		"IPv6 turned on, exchanged":               {all: ipv6, device: "net.ipv6.conf.e0.forwarding", declared: "1", before: "0", after: "1", exchange: true},
		"IPv6 turned on, of later devices":        {all: ipv6, device: "net.ipv6.conf.default.forwarding", declared: "1", before: "0", after: "1"},
		"not touched by others, of later devices": {all: ipv6, device: "net.ipv6.conf.default.forwarding", declared: "1", before: "0", after: "0"},
		"IPv6 disabled":                           {all: "net.ipv6.conf.all.disable_ipv6", device: "net.ipv6.conf.e0.disable_ipv6", declared: "0", before: "0", after: "1"},
		"address generation, exchanged":           {all: "net.ipv6.conf.all.addr_gen_mode", device: "net.ipv6.conf.e0.addr_gen_mode", declared: "1", before: "0", after: "1", exchange: true},
		"not touched by others":                   {all: forwarding, device: "net.ipv4.conf.e0.forwarding", declared: "1", before: "0", after: "0"},
		"not touched by others, but different":    {all: forwarding, device: "net.ipv4.conf.e0.forwarding", declared: "1", before: "1", after: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			target := newTarget(t, Config{})
			write := func(value string) {
				t.Helper()
				if err := target.files.Write(c.all, value); err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() { write("0") })
			write("0")
			write(c.before)
			if _, err := target.Update(t.Context(), txn(), Sysctl{Name: c.device, Value: c.declared}); err != nil {
				t.Fatal(err)
			}
			if c.after != c.before {
				write(c.after)
			}
			if _, err := target.Update(t.Context(), txn(), Sysctl{Name: c.device, Value: c.declared}); err != nil {
				t.Fatal(err)
			}
			wantValue(t, target, c.device, c.declared)
			if c.exchange {
				mustUpdate(t, target, Sysctl{Name: c.all, Value: c.after}, false)
			}
			mustDelete(t, target, c.device)
			wantValue(t, target, c.device, c.after)
			wantValue(t, target, c.all, c.after)
		})
	}
}

// A document of one device takes the place of one of all, and is removed later.
func TestTheValueOfADeviceIsNotThatOfADocumentOfAllDevices(t *testing.T) {
	const device = "net.ipv4.conf.e0.forwarding"
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, Config{})
	mustUpdate(t, target, Sysctl{Name: forwarding, Value: "1"}, true)
	mustUpdate(t, target, Sysctl{Name: device, Value: "1"}, false)
	mustDelete(t, target, forwarding)
	mustUpdate(t, target, Sysctl{Name: device, Value: "1"}, true)
	mustDelete(t, target, device)
	wantValue(t, target, device, "0")
}
