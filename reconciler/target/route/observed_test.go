package route

import (
	"net"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// runMirror runs a mirror for a target until the end of the test.
func runMirror(t *testing.T, target *Target) (*statedb.DB, *statedb.RWTable[Seen]) {
	t.Helper()
	return nstest.Mirror(t, SeenSchema(), target.NewMirror)
}

func TestTheMirrorShowsTheRoutesOfOurs(t *testing.T) {
	network(t)
	nstest.IP(t, "route", "add", "10.1.0.0/16", "via", "192.0.2.99", "proto", "79")
	nstest.IP(t, "route", "add", "10.2.0.0/16", "via", "192.0.2.99", "proto", "static")
	db, seen := runMirror(t, newTarget(t))
	wantSeen := func(want ...Seen) {
		t.Helper()
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(Seen) bool { return true }, want...)
	}
	e0, err := net.InterfaceByName("e0")
	if err != nil {
		t.Fatal(err)
	}
	first := Seen{Key: Route{Destination: to("10.1.0.0/16")}.Key(), Gateway: gateway4, Device: "e0", index: e0.Index, Scope: rtnl.GlobalScope}
	wantSeen(first)

	nstest.IP(t, "-6", "route", "add", "2001:db8:1::/48", "via", "2001:db8::99", "src", "2001:db8::7", "proto", "79")
	second := Seen{
		Key: Route{Destination: to("2001:db8:1::/48")}.Key(), Gateway: gateway6, Device: "e0", index: e0.Index, Source: ip("2001:db8::7"), Scope: rtnl.GlobalScope,
	}
	wantSeen(first, second)
	nstest.IP(t, "route", "change", "10.1.0.0/16", "via", "192.0.2.98", "proto", "79")
	first.Gateway = ip("192.0.2.98")
	wantSeen(first, second)
	nstest.IP(t, "route", "del", "10.1.0.0/16")
	wantSeen(second)

	nstest.IP(t, "route", "add", "blackhole", "10.1.0.0/16", "proto", "79")
	hole := Seen{Key: first.Key, Type: Blackhole, Scope: rtnl.GlobalScope}
	wantSeen(hole, second)
	nstest.IP(t, "route", "replace", "10.1.0.0/16", "via", "192.0.2.99", "proto", "static") // others'
	wantSeen(second)

	// The kernel says nothing of the routes that go with a link, or have another name of it.
	nstest.IP(t, "route", "add", "10.3.0.0/16", "dev", "e0", "proto", "79")
	third := Seen{Key: Route{Destination: to("10.3.0.0/16")}.Key(), Device: "e0", index: e0.Index, Scope: rtnl.LinkScope}
	wantSeen(second, third)
	nstest.IP(t, "link", "property", "add", "dev", "e0", "altname", "uplink")
	second.OtherNames, third.OtherNames = "uplink", "uplink"
	wantSeen(second, third)
	nstest.IP(t, "link", "set", "e0", "down")
	wantSeen()
}

func TestARouteIsComparedWithWhatWasSeen(t *testing.T) {
	row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
	seen := Seen{Key: row.Key(), Gateway: gateway4, Device: "e0", OtherNames: "uplink wan", Scope: rtnl.GlobalScope}
	for name, c := range map[string]struct {
		change func(row *Route, seen *Seen)
		fields []string
	}{
		"as it was seen":           {func(*Route, *Seen) {}, nil},
		"by its device":            {func(r *Route, _ *Seen) { r.Device = "e0" }, nil},
		"by another of its names":  {func(r *Route, _ *Seen) { r.Device = "wan" }, nil},
		"not seen":                 {func(_ *Route, s *Seen) { s.Key.Metric = 5 }, []string{"destination", "gateway"}},
		"of another device":        {func(r *Route, _ *Seen) { r.Device = "e1" }, []string{"device"}},
		"by another gateway":       {func(_ *Route, s *Seen) { s.Gateway = ip("192.0.2.1") }, []string{"gateway"}},
		"from another source":      {func(_ *Route, s *Seen) { s.Source = ip("192.0.2.7") }, []string{"source"}},
		"of another kind":          {func(_ *Route, s *Seen) { s.Kind = "several" }, []string{"type"}},
		"that nobody can say what": {func(r *Route, _ *Seen) { r.Destination = Destination{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			row, seen := row, seen
			c.change(&row, &seen)
			db := statedb.New()
			table := tableOf(t, db, SeenSchema(), seen)
			var fields []string
			for _, change := range differences(db.ReadTxn(), table, row) {
				fields = append(fields, change.Field)
			}
			if diff := cmp.Diff(c.fields, fields); diff != "" {
				t.Errorf("fields that differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOthersRoutesAreNotListenedTo(t *testing.T) {
	message := func(kind, flags uint16, data ...byte) syscall.NetlinkMessage {
		return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind, Flags: flags}, Data: data}
	}
	route := func(kind, flags uint16, protocol byte) syscall.NetlinkMessage {
		data := make([]byte, unix.SizeofRtMsg)
		data[5] = protocol // the sixth field of struct rtmsg, bytes all of them
		return message(kind, flags, data...)
	}
	route6 := func(kind, flags uint16, protocol byte) syscall.NetlinkMessage {
		m := route(kind, flags, protocol)
		m.Data[0] = unix.AF_INET6
		return m
	}
	preferred := route6(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, unix.RTPROT_BOOT)
	preferred.Data = append(preferred.Data, 5, 0, unix.RTA_PREF, 0, 1, 0, 0, 0) // high
	withTOS := route(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, unix.RTPROT_BGP)
	withTOS.Data[3] = 4
	link := rtnl.LinkRequest(unix.RTM_NEWLINK, 0, 7, 0, 0)
	link.AddString(unix.IFLA_IFNAME, "e0")
	link.AddUint32(unix.IFLA_MTU, 1500)
	for name, c := range map[string]struct {
		message syscall.NetlinkMessage
		want    bool
	}{
		"ours":                 {route(unix.RTM_NEWROUTE, 0, Protocol), true},
		"ours that went":       {route(unix.RTM_DELROUTE, 0, Protocol), true},
		"others' with a TOS":   {withTOS, false},
		"others' after ours":   {route(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, unix.RTPROT_BGP), true},
		"settings":             {message(unix.RTM_NEWNETCONF, 0), true},
		"others' before ours":  {route(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, unix.RTPROT_BGP), true},
		"others' that went":    {route(unix.RTM_DELROUTE, 0, unix.RTPROT_BGP), true},
		"others' of IPv6":      {route6(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, unix.RTPROT_BGP), true},
		"preferred to ours":    {preferred, true},
		"others' in place":     {route(unix.RTM_NEWROUTE, unix.NLM_F_REPLACE, unix.RTPROT_STATIC), true},
		"an address":           {message(unix.RTM_NEWADDR, 0, make([]byte, unix.SizeofIfAddrmsg)...), true},
		"an address that went": {message(unix.RTM_DELADDR, 0, make([]byte, unix.SizeofIfAddrmsg)...), true},
		"a link":               {message(unix.RTM_NEWLINK, 0, link.Data...), true},
		"a link that went":     {message(unix.RTM_DELLINK, 0, link.Data...), true},
		"cut short":            {message(unix.RTM_NEWROUTE, 0), false},
	} {
		if _, got := decode(c.message); got != c.want {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
}
