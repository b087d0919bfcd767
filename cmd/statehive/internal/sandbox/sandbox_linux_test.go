package sandbox

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestChildIsRootOfItsOwnNetworkWithLoopbackUp(t *testing.T) {
	forEachIdentity(t, func(t *testing.T, who identity) {
		p := startParent(t, who, "serve")
		got := p.facts()
		if want := []string{"lo up"}; !cmp.Equal(got.Links, want) {
			t.Errorf("links inside: %v, want %v", got.Links, want)
		}
		if got.UID != 0 {
			t.Errorf("user inside: %d, want root", got.UID)
		}
	})
}

func TestInheritedListenersAreServedInsideAndReachedFromOutside(t *testing.T) {
	forEachIdentity(t, func(t *testing.T, who identity) {
		p := startParent(t, who, "serve")
		var overTCP facts
		client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		ask(t, client, "http://"+p.metrics+"/facts", &overTCP)
		overUnix := p.facts()
		if overTCP.PID != overUnix.PID || overTCP.PID == p.cmd.Process.Pid {
			t.Errorf("pids: %d over TCP, %d over the socket, parent %d", overTCP.PID, overUnix.PID, p.cmd.Process.Pid)
		}
	})
}

func TestNetSysctlsCanBeWrittenOthersAreRefused(t *testing.T) {
	forEachIdentity(t, func(t *testing.T, who identity) {
		got := startParent(t, who, "serve").facts()
		if got.NetSysctls != "" || got.Forwarding != "1" {
			t.Errorf("ip_forward inside: %q (%s), want 1", got.Forwarding, got.NetSysctls)
		}
		if got.VMError == "" {
			t.Error("a vm sysctl could be written")
		}
		want := map[string]bool{"/proc": true, "/proc/sys": true, "/proc/sys/net": false, "/sys": true, "/sys/fs/cgroup": true}
		if diff := cmp.Diff(want, got.ReadOnly); diff != "" {
			t.Errorf("read-only paths (-want +got):\n%s", diff)
		}
	})
}

func TestNothingOutsideChanges(t *testing.T) {
	forEachIdentity(t, func(t *testing.T, who identity) {
		before := outside(t)
		p := startParent(t, who, "serve")
		p.facts()
		if diff := cmp.Diff(before, outside(t)); diff != "" {
			t.Errorf("outside, while the sandbox runs (-before +now):\n%s", diff)
		}
		p.exit(0)
		if diff := cmp.Diff(before, outside(t)); diff != "" {
			t.Errorf("outside, afterwards (-before +now):\n%s", diff)
		}
	})
}

func TestStateDirectoryIsPrivateAndGoneAfterwards(t *testing.T) {
	forEachIdentity(t, func(t *testing.T, who identity) {
		p := startParent(t, who, "serve")
		got := p.facts()
		if got.StateFS != unix.TMPFS_MAGIC {
			t.Errorf("file system of the state directory: %#x, want a tmpfs", got.StateFS)
		}
		if entries := list(t, got.StateDir); len(entries) != 0 {
			t.Errorf("the state directory has, seen from outside: %v", entries)
		}
		p.exit(0)
		if entries := list(t, p.tmp); len(entries) != 0 {
			t.Errorf("left over: %v", entries)
		}
	})
}

func TestExitCodeIsPassedOn(t *testing.T) {
	forEachIdentity(t, func(t *testing.T, who identity) {
		if got := startParent(t, who, "serve").exit(42); got != 42 {
			t.Errorf("exit code of the parent: %d, want 42", got)
		}
	})
}

func TestTermStopsTheChildGracefully(t *testing.T) {
	forEachIdentity(t, func(t *testing.T, who identity) {
		p := startParent(t, who, "stop")
		if got := p.line(); got != "ready" {
			t.Fatalf("the child says %q, want ready", got)
		}
		p.signal(syscall.SIGTERM)
		if got := p.exitCode(); got != stopCode {
			t.Errorf("exit code of the parent: %d, want %d", got, stopCode)
		}
	})
}

func TestKillingTheParentKillsTheChild(t *testing.T) {
	forEachIdentity(t, func(t *testing.T, who identity) {
		p := startParent(t, who, "serve")
		got := p.facts()
		t.Cleanup(func() { _ = syscall.Kill(got.PID, syscall.SIGKILL) }) // leave nothing behind if the test fails
		p.signal(syscall.SIGKILL)
		eventually(t, "the child is gone", func() bool { return isGone(t, got.PID) })
	})
}

func TestEachSignalArrivesOnce(t *testing.T) {
	// What whoever runs the tests ignores, as nohup does, the parent would inherit; not what is caught.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	forEachIdentity(t, func(t *testing.T, who identity) {
		p := startParent(t, who, "serve")
		p.facts()
		want := []string{}
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			// As a terminal does it: to all of the foreground process group.
			if err := syscall.Kill(-p.cmd.Process.Pid, sig); err != nil {
				t.Fatal(err)
			}
			want = append(want, sig.String())
			var got []string
			eventually(t, "the child gets "+sig.String(), func() bool {
				p.ask("/signals", &got)
				return len(got) >= len(want)
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("signals of the child (-want +got):\n%s", diff)
			}
		}
	})
}

// A shell that is not interactive lets what it starts in the background ignore SIGINT, so that Ctrl-C does not end it. A
// kill -INT is meant, and ends an agent outside of a sandbox, too. nohup means SIGHUP.
func TestAnInheritedIgnoreIsForSIGHUPOnly(t *testing.T) {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	t.Cleanup(func() { signal.Reset(syscall.SIGINT, syscall.SIGHUP) })
	forEachIdentity(t, func(t *testing.T, who identity) {
		p := startParent(t, who, "serve")
		p.facts()
		p.signal(syscall.SIGHUP)
		p.signal(syscall.SIGINT)
		p.signal(syscall.SIGTERM)
		var got []string
		eventually(t, "the child gets SIGINT and SIGTERM", func() bool {
			p.ask("/signals", &got)
			return slices.Contains(got, syscall.SIGINT.String()) && slices.Contains(got, syscall.SIGTERM.String())
		})
		slices.Sort(got)
		if diff := cmp.Diff([]string{syscall.SIGINT.String(), syscall.SIGTERM.String()}, got); diff != "" {
			t.Errorf("signals of the child (-want +got):\n%s", diff)
		}
	})
}

func TestDoneContextStopsTheChildGracefully(t *testing.T) {
	t.Setenv(scenarioVariable, "stop")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code, err := Run(ctx, Config{Stdout: writerFunc(cancel)})
	if err != nil || code != stopCode {
		t.Errorf("Run: %d, %v; want %d", code, err, stopCode)
	}
}

func TestDoneContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v, want context.Canceled", err)
	}
}

func TestKilledChildCountsAsInAShell(t *testing.T) {
	t.Setenv(scenarioVariable, "die")
	code, err := Run(t.Context(), Config{})
	if want := 128 + int(syscall.SIGKILL); err != nil || code != want {
		t.Errorf("Run: %d, %v; want %d", code, err, want)
	}
}

func TestForbiddenNamespacesAreExplained(t *testing.T) {
	t.Setenv(scenarioVariable, "forbidden")
	var output bytes.Buffer
	code, err := Run(t.Context(), Config{Stdout: &output})
	if err != nil || code != 0 {
		t.Fatalf("Run: %d, %v", code, err)
	}
	for _, want := range []string{"user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=", "without --sandbox"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("%q is not in: %s", want, &output)
		}
	}
}

func TestRemountKeepsLockedFlags(t *testing.T) {
	t.Setenv(scenarioVariable, "nested")
	if code, err := Run(t.Context(), Config{}); err != nil || code != 0 {
		t.Errorf("Run: %d, %v", code, err)
	}
}

func TestMaskedSysctlsAreReportedAndTheRestWorks(t *testing.T) {
	t.Setenv(scenarioVariable, "container")
	if code, err := Run(t.Context(), Config{}); err != nil || code != 0 {
		t.Errorf("Run: %d, %v", code, err)
	}
}

func TestListenerThatCannotBeHandedOverIsRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := Run(t.Context(), Config{Listeners: map[string]net.Listener{"api": struct{ net.Listener }{}}})
	if err == nil || !strings.Contains(err.Error(), `listener "api"`) {
		t.Errorf("Run: %v, want an error about listener \"api\"", err)
	}
	if entries := list(t, os.Getenv("TMPDIR")); len(entries) != 0 {
		t.Errorf("left over: %v", entries)
	}
}

func (p *parent) facts() facts {
	p.t.Helper()
	var f facts
	p.ask("/facts", &f)
	if f.Failure != "" {
		p.t.Fatalf("the child failed: %s", f.Failure)
	}
	return f
}

func outside(t *testing.T) map[string][]string {
	t.Helper()
	names, err := links()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{"links": names}
	for _, path := range []string{forwarding, swappiness, "/proc/self/mountinfo"} {
		value, err := readValue(path)
		if err != nil {
			t.Fatal(err)
		}
		found[path] = strings.Split(value, "\n")
	}
	return found
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// isGone reports whether a process has ended; nobody may have waited for it yet.
func isGone(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}
