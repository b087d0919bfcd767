package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	forwarding = "/proc/sys/net/ipv4/ip_forward"
	swappiness = "/proc/sys/vm/swappiness"
	stopCode   = 5 // of the "stop" scenario, after SIGTERM
	lockedDir  = "SANDBOX_TEST_LOCKED"
)

// playChild runs a scenario inside the sandbox and returns the exit code.
func playChild(scenario string, inherited *Inherited) int {
	play, ok := map[string]func(*Inherited) (int, error){
		"serve":     serve,
		"stop":      stopOnTerm,
		"die":       die,
		"forbidden": runWhereForbidden,
		"nested":    runNested,
		"locked":    remountLocked,
		"container": runInContainer,
		"masked":    setUpMasked,
	}[scenario]
	if !ok {
		return complain(fmt.Errorf("unknown scenario %q", scenario))
	}
	code, err := play(inherited)
	if err != nil {
		return complain(err)
	}
	return code
}

// serve answers on both listeners until it is asked to exit; signals it only records.
func serve(inherited *Inherited) (int, error) {
	received := record(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	prepared, err := inherited.Setup()
	if err != nil {
		return 0, err
	}
	exit := make(chan int, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /facts", func(w http.ResponseWriter, _ *http.Request) {
		facts, err := gather(prepared)
		if err != nil {
			facts.Failure = err.Error()
		}
		answer(w, facts)
	})
	mux.HandleFunc("GET /signals", func(w http.ResponseWriter, _ *http.Request) { answer(w, received.names()) })
	mux.HandleFunc("GET /exit", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.URL.Query().Get("code"))
		answer(w, err == nil)
		exit <- code
	})
	server := &http.Server{Handler: mux}
	for _, name := range []string{"api", "metrics"} {
		listener, err := inherited.Listener(name)
		if err != nil {
			return 0, err
		}
		go func() { _ = server.Serve(listener) }()
	}
	code := <-exit
	return code, server.Shutdown(context.Background())
}

func answer(w http.ResponseWriter, value any) {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		complain(err)
	}
}

// signalRecord is what a process has received; safe for concurrent use.
type signalRecord struct {
	mu       sync.Mutex
	received []string
}

func record(signals ...os.Signal) *signalRecord {
	r := &signalRecord{received: []string{}}
	incoming := make(chan os.Signal, 16)
	signal.Notify(incoming, signals...)
	go func() {
		for sig := range incoming {
			r.mu.Lock()
			r.received = append(r.received, sig.String())
			r.mu.Unlock()
		}
	}()
	return r
}

func (r *signalRecord) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.received...)
}

// facts are what the child sees and can do.
type facts struct {
	Failure    string
	PID, UID   int
	Links      []string // name, and "up"
	Forwarding string   // after writing 1
	VMError    string
	ReadOnly   map[string]bool
	StateDir   string
	StateFS    int64
	NetSysctls string
}

func gather(prepared Prepared) (facts, error) {
	f := facts{PID: os.Getpid(), UID: os.Getuid(), StateDir: prepared.StateDir, ReadOnly: map[string]bool{}}
	if prepared.NetSysctls != nil {
		f.NetSysctls = prepared.NetSysctls.Error()
	}
	var err error
	if f.Links, err = links(); err != nil {
		return f, err
	}
	if err := os.WriteFile(forwarding, []byte("1"), 0); err != nil {
		return f, err
	}
	if f.Forwarding, err = readValue(forwarding); err != nil {
		return f, err
	}
	if f.VMError, err = rewrite(swappiness); err != nil {
		return f, err
	}
	for _, path := range []string{"/proc", "/proc/sys", "/proc/sys/net", "/sys", "/sys/fs/cgroup"} {
		var stat unix.Statfs_t
		if err := unix.Statfs(path, &stat); err != nil {
			return f, err
		}
		f.ReadOnly[path] = stat.Flags&unix.ST_RDONLY != 0
	}
	err = f.useStateDir()
	return f, err
}

func (f *facts) useStateDir() error {
	var stat unix.Statfs_t
	if err := unix.Statfs(f.StateDir, &stat); err != nil {
		return err
	}
	f.StateFS = stat.Type
	return os.WriteFile(filepath.Join(f.StateDir, "record"), []byte("secret"), 0o600)
}

// rewrite writes back what the file holds, so that nothing is changed if that succeeds, and returns the error as text.
func rewrite(path string) (refused string, err error) {
	value, err := readValue(path)
	if err != nil {
		return "", err
	}
	refusal := os.WriteFile(path, []byte(value), 0)
	if refusal == nil {
		return "", nil
	}
	return refusal.Error(), nil
}

func links() ([]string, error) {
	list, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, link := range list {
		name := link.Attrs().Name
		if link.Attrs().Flags&net.FlagUp != 0 {
			name += " up"
		}
		names = append(names, name)
	}
	return names, nil
}

func readValue(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}

func stopOnTerm(*Inherited) (int, error) {
	incoming := make(chan os.Signal, 1)
	signal.Notify(incoming, syscall.SIGTERM)
	fmt.Println("ready")
	<-incoming
	return stopCode, nil
}

func die(*Inherited) (int, error) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return 0, err
	}
	select {}
}

// runWhereForbidden switches user namespaces off, for its own user namespace only, and tries to make a sandbox.
func runWhereForbidden(*Inherited) (int, error) {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		return 0, err
	}
	_, err := Run(context.Background(), Config{})
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, unix.ENOSPC) {
		return 0, fmt.Errorf("expected ErrUnavailable by ENOSPC, got: %w", err)
	}
	fmt.Println(err)
	return 0, nil
}

// runNested mounts a tmpfs with flags which a further sandbox finds locked, and runs that.
func runNested(inherited *Inherited) (int, error) {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME
	if err := unix.Mount("locked", inherited.stateDir, "tmpfs", flags, ""); err != nil {
		return 0, err
	}
	env := append(os.Environ(), scenarioVariable+"=locked", lockedDir+"="+inherited.stateDir)
	return Run(context.Background(), Config{Env: env})
}

// remountLocked shows that leaving a locked flag out is refused, and that remount does not.
func remountLocked(*Inherited) (int, error) {
	dir := os.Getenv(lockedDir)
	err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	if !errors.Is(err, unix.EPERM) {
		return 0, fmt.Errorf("expected that the flags of %s are locked, got: %w", dir, err)
	}
	for _, path := range []string{dir, "/proc"} {
		if err := remount(path, readOnly); err != nil {
			return 0, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		return 0, fmt.Errorf("writing after a read-only remount: expected EROFS, got: %w", err)
	}
	return 0, nil
}

// runInContainer makes the sysctls read-only, with a mount below them, as container runtimes do, and runs a further sandbox.
func runInContainer(*Inherited) (int, error) {
	if err := unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return 0, err
	}
	if err := unix.Mount("below", "/proc/sys/fs", "tmpfs", unix.MS_NOSUID, ""); err != nil {
		return 0, err
	}
	if err := remount("/proc/sys", readOnly); err != nil {
		return 0, err
	}
	return Run(context.Background(), Config{Env: append(os.Environ(), scenarioVariable+"=masked")})
}

func setUpMasked(inherited *Inherited) (int, error) {
	prepared, err := inherited.Setup()
	if err != nil {
		return 0, err
	}
	if !errors.Is(prepared.NetSysctls, ErrUnavailable) {
		return 0, fmt.Errorf("expected that net sysctls are unavailable, got: %w", prepared.NetSysctls)
	}
	if refusal := os.WriteFile("/proc/sys/fs/file", nil, 0o600); !errors.Is(refusal, unix.EROFS) {
		return 0, fmt.Errorf("writing to a mount below /proc/sys: expected EROFS, got: %w", refusal)
	}
	found, err := links()
	if err != nil || len(found) != 1 || found[0] != "lo up" {
		return 0, fmt.Errorf("links: %v, %w", found, err)
	}
	return 0, nil
}
