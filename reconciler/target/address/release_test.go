package address

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func promotes(t *testing.T, device string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + device + "/promote_secondaries")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func setPromotes(t *testing.T, device, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+device+"/promote_secondaries", []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
}

// killed is a target that dies while the kernel promotes addresses of e0.
func killed(t *testing.T, dir string) {
	t.Helper()
	nstest.Veth(t, "e0", "e1")
	setPromotes(t, "e0", "0")
	target := newTarget(t, dir)
	first, second := row("e0", "192.0.2.1/24"), row("e0", "192.0.2.2/24")
	mustUpdate(t, target, first, true)
	mustUpdate(t, target, second, true)
	rec, _ := target.records.Get(first.Key().String())
	shared, err := target.sharedNetworks(t.Context(), []record{rec})
	if err == nil {
		err = target.beginPromotions(t.Context(), shared)
	}
	if err != nil {
		t.Fatal(err)
	}
	if is := promotes(t, "e0"); is != "1" {
		t.Fatalf("promote_secondaries is %s", is)
	}
}

func TestPromotionEndsAfterACrash(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T)
		device    string
		want      string
	}{
		"as it was": {func(*testing.T) {}, "e0", "0"},
		"unless others have set it": {func(t *testing.T) {
			t.Helper()
			setPromotes(t, "e0", "2")
		}, "e0", "2"},
		"when the device has another name": {func(t *testing.T) {
			t.Helper()
			nstest.IP(t, "link", "set", "e0", "name", "lan0")
		}, "lan0", "0"},
		"but not on another device of the name": {func(t *testing.T) {
			t.Helper()
			nstest.IP(t, "link", "del", "e0")
			nstest.Veth(t, "e0", "e1")
			setPromotes(t, "e0", "1")
		}, "e0", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			killed(t, dir)
			c.meanwhile(t)
			target := newTarget(t, dir)
			if err := target.Init(t.Context()); err != nil {
				t.Fatal(err)
			}
			if is := promotes(t, c.device); is != c.want {
				t.Errorf("promote_secondaries of %s is %s, expected %s", c.device, is, c.want)
			}
			if left := maps.Collect(target.promotions.All()); len(left) != 0 {
				t.Errorf("left over: %s", fmt.Sprint(left))
			}
			nstest.TryIP(t, "link", "del", c.device)
		})
	}
}
