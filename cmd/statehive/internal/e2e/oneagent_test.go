package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// harmless is a document that changes nothing of a network.
const harmless = "kind: sysctl\nname: net.ipv4.conf.all.log_martians\nvalue: \"0\"\n"

const cableAndRoutes = cable + `---
kind: route
destination: 198.51.100.0/24
gateway: 192.0.2.3
---
kind: route
destination: 203.0.113.0/24
gateway: 192.0.2.3
`

// neighbor makes a world with a directory, a socket and an address for metrics of
// its own, in the network namespace of w.
func (w *world) neighbor(t *testing.T) *world {
	t.Helper()
	n := testWorld(t, w.user)
	n.namespace = w.namespace
	t.Cleanup(func() { n.namespace = nil }) // it is closed with w
	return n
}

// withRoutes starts an agent that has routes, in namespaces of its own.
func withRoutes(t *testing.T) *world {
	t.Helper()
	w := testWorld(t, user{name: "self"})
	must(t, w.isolate(t.Context()))
	must(t, w.setup(map[string]string{"net.yaml": cableAndRoutes}))
	must(t, w.start(t.Context()))
	must(t, until(t.Context(), patience, func(ctx context.Context) error { return w.allDone(ctx).failure() }))
	return w
}

func TestSecondAgentOfANetworkNamespaceIsRefusedAndTouchesNothing(t *testing.T) {
	t.Parallel()
	first := withRoutes(t)
	before := first.routes(t)
	second := first.neighbor(t)
	must(t, second.setup(map[string]string{"sysctl.yaml": harmless}))

	// Without a lock its first full pass would remove the routes of the first one,
	// which it takes for its own.
	must(t, second.launch())
	must(t, until(t.Context(), patience, func(context.Context) error {
		if diff := cmp.Diff(before, first.routes(t)); diff != "" {
			t.Fatalf("the second agent has changed routes of the first: %s", diff)
		}
		if second.agent.running() == nil {
			return errors.New("the second agent runs")
		}
		return nil
	}))
	var exit *exec.ExitError
	if !errors.As(second.agent.err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, expected exit code 1", second.agent.err)
	}
	if diff := cmp.Diff(before, first.routes(t)); diff != "" {
		t.Errorf("routes: %s", diff)
	}
	for _, path := range []string{second.state(), second.path("socket")} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, expected that there is none", path, err)
		}
	}
	pid := strconv.Itoa(first.agent.cmd.Process.Pid)
	second.logHas(t, "an agent runs already in this network namespace", "process "+pid+" of user 0 (", first.documents(), "kill "+pid, "--sandbox")
	must(t, first.allDone(t.Context()).failure())
}

func TestNextAgentOfANetworkNamespaceStartsWhenTheFirstWasKilled(t *testing.T) {
	t.Parallel()
	first := withRoutes(t)
	second := first.neighbor(t)
	must(t, second.setup(map[string]string{"sysctl.yaml": harmless}))
	must(t, first.kill())
	must(t, second.start(t.Context()))
	// It has another state directory, and says what the first one has left.
	must(t, until(t.Context(), patience, func(ctx context.Context) error {
		if r := second.statehive(ctx, "health"); !strings.Contains(r.stdout, "addresses that carry our mark without a record") {
			return fmt.Errorf("statehive health: %s, %w", r.stdout, r.err)
		}
		if r := second.statehive(ctx, "get", "sysctls"); !strings.Contains(r.stdout, "done") {
			return fmt.Errorf("statehive get sysctls: %s, %w", r.stdout, r.err)
		}
		return nil
	}))
	must(t, second.stop())
}

func TestAgentsOfTwoNetworkNamespacesRunSideBySide(t *testing.T) {
	t.Parallel()
	first, other := withRoutes(t), withRoutes(t)
	sandboxed := first.neighbor(t)
	must(t, sandboxed.setup(map[string]string{"net.yaml": cableAndRoutes}))
	must(t, sandboxed.start(t.Context(), "--sandbox"))
	for _, w := range []*world{sandboxed, other, first} {
		must(t, until(t.Context(), patience, func(ctx context.Context) error { return w.allDone(ctx).failure() }))
		must(t, w.stop())
	}
}

// routes are those of agents that the kernel has.
func (w *world) routes(t *testing.T) string {
	t.Helper()
	r := w.inside(t.Context(), "ip", "route", "show", "table", "all", "proto", "79")
	must(t, r.failure())
	return r.stdout
}

func (w *world) logHas(t *testing.T, texts ...string) {
	t.Helper()
	log, err := os.ReadFile(w.log())
	must(t, err)
	for _, text := range texts {
		if !strings.Contains(string(log), text) {
			t.Errorf("the log does not have %q:\n%s", text, log)
		}
	}
}
