package rtnl

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func TestMain(m *testing.M) {
	nl.EnableErrorMessageReporting = true
	nstest.Main(m)
}

func dial(t *testing.T) *Conn {
	t.Helper()
	conn, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func TestInterruptedListingsAreMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		interruptions int
		want          error
	}{
		"never":    {0, nil},
		"twice":    {2, nil},
		"for ever": {1 << 30, netlink.ErrDumpInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			items, err := List(&Conn{}, func(*netlink.Handle) ([]int, error) {
				calls++
				if calls <= c.interruptions {
					return []int{1}, netlink.ErrDumpInterrupted
				}
				return []int{1, 2}, nil
			})
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, expected %v", err, c.want)
			}
			if c.want == nil && (len(items) != 2 || calls != c.interruptions+1) {
				t.Errorf("%d items after %d calls", len(items), calls)
			}
			if c.want != nil && (len(items) != 0 || calls != maxListings) {
				t.Errorf("given up with %d items after %d calls", len(items), calls)
			}
		})
	}
}

func TestErrorsCarryTheKernelsText(t *testing.T) {
	conn := dial(t)
	calls := 0
	route := &netlink.Route{
		Dst: &net.IPNet{IP: net.IPv4(10, 99, 0, 0), Mask: net.CIDRMask(16, 32)},
		Gw:  net.IPv4(203, 0, 113, 1),
	}
	add := func(handle *netlink.Handle) error {
		calls++
		return handle.RouteAdd(route)
	}
	err := conn.Do(add)
	if got, want := fmt.Sprint(err), "Nexthop has invalid gateway (network is unreachable)"; got != want {
		t.Errorf("error %q, expected %q", got, want)
	}
	if !errors.Is(err, syscall.ENETUNREACH) || calls != 2 {
		t.Errorf("error %v after %d calls", err, calls)
	}

	calls = 0
	err = conn.Do(add, syscall.EEXIST, syscall.ENETUNREACH)
	if got, want := fmt.Sprint(err), "network is unreachable"; got != want || calls != 1 {
		t.Errorf("an expected error is %q after %d calls, expected %q after one", got, calls, want)
	}
}

func TestARequestThatSucceedsWhenRepeatedSucceeds(t *testing.T) {
	calls := 0
	err := dial(t).Do(func(*netlink.Handle) error {
		calls++
		if calls == 1 {
			return syscall.EBUSY
		}
		return nil
	})
	if err != nil || calls != 2 {
		t.Errorf("error %v after %d calls", err, calls)
	}
}

func TestOtherErrorsAreLeftAsTheyAre(t *testing.T) {
	other := errors.New("either Dst.IP, Src.IP or Gw must be set")
	if err := dial(t).Do(func(*netlink.Handle) error { return other }); !errors.Is(err, other) {
		t.Errorf("error %v, expected %v", err, other)
	}
}

func TestKernelErrorText(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{syscall.EPERM, "operation not permitted: it takes the capability CAP_NET_ADMIN, as root has it"},
		{fmt.Errorf("%w: %s", syscall.EPERM, "Not here"), "Not here (operation not permitted)"},
		{fmt.Errorf("%w: %s", syscall.EINVAL, "Invalid MTU."), "Invalid MTU (invalid argument)"},
		{fmt.Errorf("%w: %s", syscall.EINVAL, ""), "invalid argument"},
		{fmt.Errorf("look: %w", syscall.EINVAL), "invalid argument"},
	} {
		if got := kernelError(c.err).Error(); got != c.want {
			t.Errorf("%v becomes %q, expected %q", c.err, got, c.want)
		}
	}
	if kernelError(nil) != nil {
		t.Error("no error becomes one")
	}
}

func TestLinks(t *testing.T) {
	conn := dial(t)
	lo, err := conn.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if name := conn.LinkName(lo.Attrs().Index); name != "lo" {
		t.Errorf("the name of lo is %q", name)
	}
	if name := conn.LinkName(4711); name != "#4711" {
		t.Errorf("the name of a link that is gone is %q", name)
	}
	_, err = conn.LinkByName("none0")
	if got, want := fmt.Sprint(err), `device "none0" does not exist`; got != want || !errors.Is(err, syscall.ENODEV) {
		t.Errorf("error %q, expected %q", got, want)
	}
	if _, err = conn.LinkByIndex(4711); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("error %v, expected ENODEV", err)
	}
}
