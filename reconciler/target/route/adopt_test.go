package route

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func TestRoutesOfOthersAreTakenOver(t *testing.T) {
	four, six := to("10.1.0.0/16"), to("2001:db8:1::/48")
	for name, c := range map[string]struct {
		row    Route
		others []string // arguments of ip route append
		fields string   // that are told to change
	}{
		"IPv4": {Route{Destination: four, Gateway: gateway4}, []string{"10.1.0.0/16 via 192.0.2.98"}, "protocol gateway"},
		"the same but for its protocol": {
			Route{Destination: four, Gateway: gateway4},
			[]string{"10.1.0.0/16 via 192.0.2.99"},
			"protocol",
		},
		"several of IPv4": {
			Route{Destination: four, Nexthops: hops("192.0.2.97", "192.0.2.99")},
			[]string{"10.1.0.0/16 via 192.0.2.98", "10.1.0.0/16 via 192.0.2.99", "10.1.0.0/16 dev e1 scope link"},
			"protocol gateway device nexthops",
		},
		"with next hops": {
			Route{Destination: four, Device: "e1"},
			[]string{"10.1.0.0/16 mtu 1400 nexthop via 192.0.2.98 nexthop via 192.0.2.97"},
			"protocol device nexthops mtu",
		},
		"of another type": {Route{Destination: four, Gateway: gateway4}, []string{"blackhole 10.1.0.0/16"}, "protocol gateway type"},
		"a blackhole":     {Route{Destination: four, Type: Blackhole}, []string{"10.1.0.0/16 via 192.0.2.98"}, "protocol gateway device type"},
		"IPv6":            {Route{Destination: six, Gateway: gateway6}, []string{"2001:db8:1::/48 via 2001:db8::98"}, "protocol gateway"},
		"IPv6 with next hops": {
			Route{Destination: six, Nexthops: hops("2001:db8::96", "2001:db8::99 * 3")},
			[]string{"2001:db8:1::/48 nexthop via 2001:db8::98 nexthop via 2001:db8::97"},
			"protocol nexthops",
		},
		"IPv6 by a device": {
			Route{Destination: six, Gateway: gateway6},
			[]string{"2001:db8:1::/48 dev e1"},
			"protocol gateway",
		},
		"several of IPv6": {
			Route{Destination: six, Device: "e0"},
			[]string{"2001:db8:1::/48 dev e1", "2001:db8:1::/48 via 2001:db8::98"},
			"protocol device",
		},
		"IPv6, a blackhole": {
			Route{Destination: six, Type: Blackhole},
			[]string{"2001:db8:1::/48 via 2001:db8::98"},
			"protocol gateway device type",
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, target *Target) {
				family, _ := selector(c.row)
				for _, other := range c.others {
					nstest.IP(t, append([]string{family, "route", "append", "proto", "static"}, strings.Fields(other)...)...)
				}
				row := c.row
				row.Adopt = true
				changes, err := target.Diff(t.Context(), txn(), row)
				var fields []string
				for _, change := range changes {
					fields = append(fields, change.Field)
				}
				if got := strings.Join(fields, " "); err != nil || got != c.fields && !strings.HasPrefix(name, "several") {
					t.Errorf("Diff tells of %q, %v, expected %q", got, err, c.fields)
				}
				mustUpdate(t, target, row, true)
				mustHold(t, target, row)
				if left := show(t, row, "static"); len(left) != 0 {
					t.Errorf("of others is left: %v", left)
				}
				mustDelete(t, target, Route{Destination: row.Destination}) // it is ours now
				if left := show(t, row, "all"); len(left) != 0 {
					t.Errorf("after the Delete there is: %v", left)
				}
			})
		})
	}
}

// TestATakeoverThatWasInterruptedIsFinished: our route is behind the others', which the
// kernel chooses.
func TestATakeoverThatWasInterruptedIsFinished(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Adopt: true}
		nstest.IP(t, "route", "add", "10.1.0.0/16", "via", "192.0.2.98", "proto", "static")
		nstest.IP(t, "route", "append", "10.1.0.0/16", "via", "192.0.2.99", "proto", "79")
		if changes, err := target.Diff(t.Context(), txn(), row); err != nil || len(changes) == 0 {
			t.Errorf("Diff = %v, %v", changes, err)
		}
		mustUpdate(t, target, row, true)
		mustHold(t, target, row)
		if left := show(t, row, "static"); len(left) != 0 {
			t.Errorf("of others is left: %v", left)
		}
	})
}

// To the kernel an IPv6 route for some sources, as routing daemons add it, is another route than ours, whatever its protocol.
func TestARouteForSomeSourcesIsNotInTheWay(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		others := "-6 route add 2001:db8:9::/48 from 2001:db8:%d::/64 via 2001:db8::98 dev e0 proto %d"
		row := Route{Destination: to("2001:db8:9::/48"), Gateway: gateway6, Device: "e0"}
		mustUpdate(t, target, row, true)
		for i, protocol := range []byte{unix.RTPROT_STATIC, Protocol} {
			nstest.IP(t, strings.Fields(fmt.Sprintf(others, i, protocol))...)
			mustUpdate(t, target, row, false)
			for _, gateway := range []string{"2001:db8::97", "2001:db8::98", "2001:db8::96"} {
				row.Gateway = ip(gateway)
				mustUpdate(t, target, row, true)
				mustUpdate(t, target, row, false)
				if is := nstest.IP(t, "-6", "route", "show", "2001:db8:9::/48"); strings.Count(is, "2001:db8:9::/48 via ") != 1 || !strings.Contains(is, "2001:db8:9::/48 via "+gateway) {
					t.Errorf("the routes are:\n%s", is)
				}
			}
			remove(t, row)
			mustUpdate(t, target, row, true)
		}
		mustDelete(t, target, row)
		if left := nstest.IP(t, "-6", "route", "show", "2001:db8:9::/48"); strings.Count(left, "via 2001:db8::98") != 2 || strings.Count(left, "\n") != 2 {
			t.Errorf("left is:\n%s", left)
		}
	})
}

// TestARouteBesideOursIsNotTakenOver: one of another metric, table or service.
func TestARouteBesideOursIsNotTakenOver(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		others := []string{
			"10.1.0.0/16 via 192.0.2.98 metric 7", "10.1.0.0/16 via 192.0.2.98 table 7", "10.1.0.0/16 via 192.0.2.98 tos 0x10",
			"10.1.0.0/24 via 192.0.2.98",
		}
		for _, other := range others {
			nstest.IP(t, append([]string{"route", "add", "proto", "static"}, strings.Fields(other)...)...)
		}
		row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Adopt: true}
		mustUpdate(t, target, row, true)
		mustHold(t, target, row)
		mustDelete(t, target, row)
		if left := nstest.IP(t, "route", "show", "table", "all", "proto", "static"); strings.Count(left, "\n") != len(others) {
			t.Errorf("of others is left:\n%s", left)
		}
	})
}
