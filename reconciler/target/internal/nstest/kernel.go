package nstest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/target/ownership"
)

// IP runs the command ip, as an operator beside the agent would. It fails the
// test if that fails.
func IP(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %v: %v\n%s", arguments, err, out)
	}
	return string(out)
}

// TryIP is IP for what may fail: then it returns nothing.
func TryIP(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", arguments...).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// Veth makes a pair of links, both up, and deletes it after the test.
func Veth(t *testing.T, name, peer string) {
	t.Helper()
	IP(t, "link", "add", name, "type", "veth", "peer", "name", peer)
	t.Cleanup(func() {
		// It may be gone by now.
		_ = exec.Command("ip", "link", "del", name).Run() //nolint:noctx // the test's context has ended
	})
	IP(t, "link", "set", name, "up")
	IP(t, "link", "set", peer, "up")
}

// OtherUsers skips a test that gives files to other users when there are none in the namespaces,
// because it is not root who runs the tests.
func OtherUsers(t *testing.T) {
	t.Helper()
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	if fields := strings.Fields(string(users)); len(fields) == 3 && fields[2] == "1" {
		t.Skip("there is one user only: run the tests as root")
	}
}

// Store opens records in a directory.
func Store(t *testing.T, dir string) *ownership.Store {
	t.Helper()
	store, err := ownership.Open(ownership.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return store
}
