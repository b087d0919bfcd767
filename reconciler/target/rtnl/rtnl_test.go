package rtnl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

func dial(t *testing.T) *Conn {
	t.Helper()
	conn, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// fakeKernel answers each request with what answer makes of its sequence number.
type fakeKernel struct {
	answer func(seq uint32) []byte
	asked  int
	seq    uint32
}

func (k *fakeKernel) send(b []byte) error {
	k.asked++
	k.seq = binary.NativeEndian.Uint32(b[8:])
	return nil
}

func (k *fakeKernel) receive() ([]byte, error) { return k.answer(k.seq), nil }

func (k *fakeKernel) receiveNow() ([]byte, error) {
	if b := k.answer(k.seq); b != nil {
		return b, nil
	}
	return nil, syscall.ENOBUFS
}

func (*fakeKernel) enlarge(int) error     { return nil }
func (*fakeKernel) port() (uint32, error) { return 0, nil }
func (*fakeKernel) close()                {}

// message is one as the kernel sends it.
func message(kind, flags uint16, seq uint32, data ...byte) []byte {
	r := Request{Type: kind, Data: data}
	b := r.appendTo(nil, seq, 0)
	binary.NativeEndian.PutUint16(b[6:], flags)
	return b
}

func TestInterruptedDumpsAreMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		interruptions int
		want          error
	}{
		"never":    {0, nil},
		"twice":    {2, nil},
		"for ever": {1 << 30, errInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			k := &fakeKernel{}
			k.answer = func(seq uint32) []byte {
				flags := uint16(unix.NLM_F_MULTI)
				if k.asked <= c.interruptions {
					flags |= unix.NLM_F_DUMP_INTR
				}
				b := message(unix.RTM_NEWLINK, unix.NLM_F_MULTI, seq-1) // of a dump that was given up
				b = append(b, message(unix.RTM_NEWLINK, unix.NLM_F_MULTI, seq)...)
				b = append(b, message(unix.RTM_NEWLINK, flags, seq)...)
				return append(b, message(unix.NLMSG_DONE, unix.NLM_F_MULTI, seq, 0, 0, 0, 0)...)
			}
			items, err := Dump(t.Context(), &Conn{questions: k}, Request{}, func(syscall.NetlinkMessage) (int, bool) { return 1, true })
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, expected %v", err, c.want)
			}
			if c.want == nil && (len(items) != 2 || k.asked != c.interruptions+1) {
				t.Errorf("%d items after %d requests", len(items), k.asked)
			}
			if c.want != nil && (len(items) != 0 || k.asked != maxDumps) {
				t.Errorf("given up with %d items after %d requests", len(items), k.asked)
			}
		})
	}
}

func TestAnAnswerThatWasLostIsAnError(t *testing.T) {
	k := &fakeKernel{}
	answers := 0
	k.answer = func(seq uint32) []byte {
		if answers++; answers > 2 {
			return nil
		}
		return message(unix.NLMSG_ERROR, 0, seq+uint32(answers), 0, 0, 0, 0) // of the second and the third
	}
	for i, err := range (&Conn{requests: k}).Execute(t.Context(), make([]Request, 4)) {
		if answered := i == 1 || i == 2; answered != (err == nil) || err != nil && !errors.Is(err, errNoAnswer) {
			t.Errorf("outcome %d: %v", i, err)
		}
	}
}

func TestErrorsCarryTheKernelsText(t *testing.T) {
	add := routeRequest(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, netip.MustParsePrefix("10.99.0.0/16"), netip.MustParseAddr("203.0.113.1"))
	err := dial(t).Execute(t.Context(), []Request{add})[0]
	if got, want := fmt.Sprint(err), "Nexthop has invalid gateway (network is unreachable)"; got != want {
		t.Errorf("error %q, expected %q", got, want)
	}
	if !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("error %v does not match its number", err)
	}
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  Error
		want string
	}{
		{Error{Errno: syscall.EPERM}, "operation not permitted: it takes the capability CAP_NET_ADMIN, as root has it"},
		{Error{syscall.EPERM, "Not here"}, "Not here (operation not permitted)"},
		{Error{Errno: syscall.EINVAL}, "invalid argument"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%#v is %q, expected %q", c.err, got, c.want)
		}
	}
}

func TestLinks(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "link", "set", "e0", "mtu", "1400", "alias", "some words")
	nstest.IP(t, "link", "property", "add", "dev", "e0", "altname", "uplink")
	nstest.IP(t, "link", "property", "add", "dev", "e0", "altname", "a-name-that-is-longer-than-others")
	nstest.IP(t, "link", "add", "br0", "type", "bridge")
	t.Cleanup(func() { nstest.TryIP(t, "link", "del", "br0") })
	nstest.IP(t, "link", "set", "e1", "master", "br0")
	conn := dial(t)
	find := func(name string) Link {
		t.Helper()
		link, err := conn.LinkByName(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	e0, e1, br0 := find("e0"), find("e1"), find("br0")
	want := Link{
		Index: e0.Index, Name: "e0", Others: "uplink a-name-that-is-longer-than-others", Type: "veth", Up: true, Running: e0.Flags&unix.IFF_RUNNING != 0, Flags: e0.Flags, MTU: 1400,
		MAC: e0.MAC, Alias: "some words", Peer: e1.Index,
	}
	if e0 != want || len(e0.MAC) != 17 {
		t.Errorf("e0 is %+v, expected %+v", e0, want)
	}
	if lo := find("lo"); lo.Flags&unix.IFF_LOOPBACK == 0 || e0.Flags&(unix.IFF_LOOPBACK|unix.IFF_BROADCAST) != unix.IFF_BROADCAST {
		t.Errorf("the flags of lo are %#x, those of e0 %#x", lo.Flags, e0.Flags)
	}
	if e1.Master != br0.Index || br0.Type != "bridge" || br0.Up {
		t.Errorf("e1 is %+v, br0 %+v", e1, br0)
	}
	for _, name := range []string{"uplink", "a-name-that-is-longer-than-others"} {
		if link := find(name); link != want {
			t.Errorf("%s is %+v", name, link)
		}
	}
	if name := conn.LinkName(t.Context(), e0.Index); name != "e0" {
		t.Errorf("the name of e0 is %q", name)
	}
	all, err := conn.Links(t.Context())
	if err != nil || len(all) != 4 {
		t.Errorf("links %+v, %v", all, err)
	}
}

func TestALinkThatDoesNotExist(t *testing.T) {
	conn := dial(t)
	for _, name := range []string{"none0", "none-of-a-name-that-is-longer"} {
		_, err := conn.LinkByName(t.Context(), name)
		if got, want := fmt.Sprint(err), fmt.Sprintf("device %q does not exist", name); got != want || !errors.Is(err, syscall.ENODEV) {
			t.Errorf("error %q, expected %q", got, want)
		}
	}
	if _, err := conn.LinkByIndex(t.Context(), 4711); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("error %v", err)
	}
	if name := conn.LinkName(t.Context(), 4711); name != "#4711" {
		t.Errorf("name %q", name)
	}
	indexes := Indexes{Conn: conn}
	for range 2 {
		if _, err := indexes.Of(t.Context(), "none0"); !errors.Is(err, syscall.ENODEV) {
			t.Errorf("error %v", err)
		}
		if index, err := indexes.Of(t.Context(), "lo"); index != 1 || err != nil {
			t.Errorf("lo is %d, %v", index, err)
		}
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(message(unix.RTM_NEWLINK, 0, 1, make([]byte, 40)...))
	f.Fuzz(func(_ *testing.T, b []byte) {
		for m := range messages(b) {
			_, _ = DecodeLink(m)
			_ = outcomeOf(m)
		}
	})
}

func routeRequest(kind, flags uint16, destination netip.Prefix, gateway netip.Addr) Request {
	r := Request{Type: kind, Flags: flags, Data: make([]byte, unix.SizeofRtMsg)}
	copy(r.Data, []byte{unix.AF_INET, byte(destination.Bits()), 0, 0, unix.RT_TABLE_MAIN, 79, 0, unix.RTN_UNICAST})
	r.Add(unix.RTA_DST, destination.Addr().AsSlice())
	r.Add(unix.RTA_GATEWAY, gateway.AsSlice())
	return r
}

func TestABatchHasAnOutcomeForEachRequest(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "address", "add", "192.0.2.1/24", "dev", "e0")
	conn := dial(t)
	const count = 3*batchRequests + 7
	requests := make([]Request, count)
	for i := range requests {
		gateway := "192.0.2.9"
		if i%10 == 3 {
			gateway = "203.0.113.1"
		}
		destination := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 0}), 24)
		requests[i] = routeRequest(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, destination, netip.MustParseAddr(gateway))
	}
	for i, err := range conn.Execute(t.Context(), requests) {
		want := "<nil>"
		if i%10 == 3 {
			want = "Nexthop has invalid gateway (network is unreachable)"
		}
		if fmt.Sprint(err) != want {
			t.Errorf("outcome %d: %v, expected %s", i, err, want)
		}
	}
	for i, err := range conn.Execute(t.Context(), requests) {
		if i%10 != 3 && !errors.Is(err, syscall.EEXIST) {
			t.Errorf("outcome %d of the second time: %v", i, err)
		}
	}
	routes, err := Dump(t.Context(), conn, Request{Type: unix.RTM_GETROUTE, Data: make([]byte, unix.SizeofRtMsg)},
		func(m syscall.NetlinkMessage) (bool, bool) { return true, m.Data[5] == 79 })
	if err != nil || len(routes) != count-20 {
		t.Errorf("%d routes, %v, expected %d", len(routes), err, count-20)
	}
}

func TestABatchStopsAtTheEndOfItsContext(t *testing.T) {
	conn := dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range conn.Execute(ctx, make([]Request, 2)) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("outcome %v", err)
		}
	}
}

func TestASubscriptionReceivesAndEnds(t *testing.T) {
	s, err := Subscribe(unix.RTNLGRP_LINK)
	if err != nil {
		t.Fatal(err)
	}
	names := make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		for {
			if err := s.Wait(); err != nil {
				ended <- err
				return
			}
			_ = s.Drain(func(m syscall.NetlinkMessage) {
				for kind, value := range Attributes(m.Data[unix.SizeofIfInfomsg:]) {
					if kind == unix.IFLA_IFNAME {
						names <- String(value)
					}
				}
			})
		}
	}()
	nstest.Veth(t, "e0", "e1")
	for want := "e0"; ; {
		if name := <-names; name == want {
			break
		}
	}
	s.Close()
	if err := <-ended; err == nil {
		t.Error("Wait after Close succeeds")
	}
}

func TestNamesOfLinks(t *testing.T) {
	for name, want := range map[string]string{
		"eth0": "", "wan@0": "", strings.Repeat("a", 127): "",
		"": "it is missing", strings.Repeat("a", 128): "has 128 bytes", "a b": "not the name", "a/b": "not the name", "a\x1bb": "not the name", "a\u00a0b": "not the name",
	} {
		if err := CheckName(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
