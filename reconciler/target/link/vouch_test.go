package link

import (
	"errors"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func TestVouchesForLinksThatWeCreated(t *testing.T) {
	t.Run("without a mirror", func(t *testing.T) { vouches(t, newTarget) })
	t.Run("with a mirror", func(t *testing.T) { vouches(t, withMirror) })
}

func vouches(t *testing.T, open func(*testing.T, string) *Target) {
	t.Helper()
	remove(t, "v0")
	target := open(t, t.TempDir())
	index := func(name string) int {
		t.Helper()
		return mustLink(t, name).Attrs().Index
	}
	vouch := func(name string, index int, ok bool) {
		t.Helper()
		err := target.Vouches(t.Context(), name, index)
		if ok && err != nil || !ok && !errors.Is(err, ErrForeign) {
			t.Errorf("Vouches(%s, %d): %v", name, index, err)
		}
	}
	mustUpdate(t, target, Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}, true)
	mustUpdate(t, target, Link{Name: "lo", Up: true}, false)
	ours := index("v0")
	vouch("v0", ours, true)
	vouch("v1", index("v1"), true)
	vouch("lo", index("lo"), true)
	vouch("none0", 4711, true)
	vouch("v0", ours+1000, false)

	nstest.IP(t, "link", "del", "v0")
	vouch("v0", ours, false)
	nstest.IP(t, "link", "add", "v0", "type", "bridge")
	vouch("v0", ours, false)
	vouch("v0", index("v0"), false)
	nstest.IP(t, "link", "del", "v0")
	mustUpdate(t, target, Link{Name: "v0", Type: Veth, Peer: "v1"}, true)
	vouch("v0", index("v0"), true) // it is down, so that the kernel does not tell of its alias
}
