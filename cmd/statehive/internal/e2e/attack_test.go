package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// attackTime is how long the agent is attacked: see make attack.
var attackTime = flag.Duration("attack", shortAttack, "how long the agent is attacked")

const (
	// shortAttack is for tests that run beside others.
	shortAttack = 5 * time.Second
	// promptly is how soon root and probes are answered under a longer attack, for which the machine has nothing else to do.
	promptly = time.Second
	// held is how many connections an attacker keeps open.
	held = 400
	// attackPause is between two connections of an attacker.
	attackPause = 2 * time.Millisecond
)

// attack is what is sent on each connection of an attacker, who never reads.
type attack struct {
	name, network, payload string
	uid                    int
	made, failed           atomic.Int64
}

func attacks() []*attack {
	const body = "POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000000\r\n\r\n"
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }
	var all []*attack
	for _, network := range []string{"unix", "tcp"} {
		list := get("/v1/tables/sysctls")
		if network == "tcp" {
			list = get("/metrics")
		}
		for name, payload := range map[string]string{
			"idle": "", "slow headers": "GET / HTTP/1.1\r\nHost:", "slow body": strings.Replace(body, "200000000", "100", 1),
			"large body": body + strings.Repeat(" ", 1<<20), "large headers": get("/") + "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 1<<16),
			"no reader": strings.Repeat(list, 100), "stream": get("/v1/tables/sysctls?watch"), "noise": strings.Repeat("\x00\xff\r\n", 1000),
		} {
			all = append(all, &attack{name: name, network: network, payload: payload})
		}
	}
	return append(all, &attack{name: "another user", network: "unix", uid: 65534, payload: list65534})
}

const list65534 = "GET /v1/reconcilers HTTP/1.1\r\nHost: localhost\r\n\r\n"

// address is where connections of a network are made to.
func (w *world) address(network string) string {
	if network == "unix" {
		return w.path("socket")
	}
	return w.metrics
}

// there runs fn on a thread of its own in the agent's network namespace, as a user; the thread ends with it.
func (w *world) there(uid int, fn func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		file, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", w.namespace.pid()))
		if err == nil {
			err = errors.Join(unix.Setns(int(file.Fd()), unix.CLONE_NEWNET), file.Close())
		}
		if err == nil && uid != 0 {
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
				err = errno
			}
		}
		if err == nil {
			err = fn()
		}
		result <- err
	}()
	return <-result
}

// run attacks until ctx is done.
func (a *attack) run(ctx context.Context, w *world) error {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	return w.there(a.uid, func() error {
		// The attackers have the processor that nobody else wants: how the agent defends itself is tried, not how fast the machine is.
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
			return err
		}
		tick := time.NewTicker(attackPause)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			conn, err := net.DialTimeout(a.network, w.address(a.network), 100*time.Millisecond)
			if err != nil {
				a.failed.Add(1) // that is for the agent to choose
				continue
			}
			a.made.Add(1)
			_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			_, _ = io.WriteString(conn, a.payload)
			if open = append(open, conn); len(open) > held {
				_ = open[0].Close()
				open = open[1:]
			}
		}
	})
}

// probe is what must go on meanwhile.
type probe struct {
	name    string
	try     func(ctx context.Context) error
	times   int
	late    int
	longest time.Duration
	err     error
}

func (p *probe) run(ctx context.Context) {
	for p.err == nil && ctx.Err() == nil {
		began := time.Now()
		p.err = p.try(context.WithoutCancel(ctx))
		took := time.Since(began)
		p.times++
		p.longest = max(p.longest, took)
		if took > promptly {
			p.late++
		}
	}
}

// answersStatus fails unless status is answered, whether or not all is well.
func (w *world) answersStatus(ctx context.Context) error {
	if r := w.statehive(ctx, "status"); !strings.Contains(r.stdout, "RECONCILER") {
		return fmt.Errorf("status: %w\n%s", r.err, r)
	}
	return nil
}

// answersHealthz asks as a probe does: on a new connection each time.
func (w *world) answersHealthz(ctx context.Context) error {
	var conn net.Conn
	err := w.there(0, func() (err error) { conn, err = net.DialTimeout("tcp", w.metrics, patience); return err })
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.metrics+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("healthz: %w", err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("healthz: %s %s: %w", resp.Status, text, err)
	}
	return nil
}

// landsAChange returns what changes a document, and waits until the kernel has it.
func (w *world) landsAChange() func(context.Context) error {
	value := 0
	return func(ctx context.Context) error {
		value = 1 - value
		if err := replaceFile(w.path("documents/forward.yaml"), forwarding(value)); err != nil {
			return err
		}
		return until(ctx, patience, func(ctx context.Context) error {
			r := w.inside(ctx, "cat", "/proc/sys/net/ipv4/ip_forward")
			if r.err == nil && strings.TrimSpace(r.stdout) != strconv.Itoa(value) {
				r.err = fmt.Errorf("the kernel has %s instead of %d", r.stdout, value)
			}
			return r.failure()
		})
	}
}

func forwarding(value int) string {
	return fmt.Sprintf("kind: sysctl\nname: net.ipv4.ip_forward\nvalue: %d\n", value)
}

// usage is what the agent holds.
type usage struct{ descriptors, goroutines, heap float64 }

func (w *world) usage(ctx context.Context) (u usage, err error) {
	r := w.scrape(ctx, "/metrics")
	for name, into := range map[string]*float64{"process_open_fds": &u.descriptors, "go_goroutines": &u.goroutines, "go_memstats_heap_alloc_bytes": &u.heap} {
		match := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(r.stdout)
		if match == nil {
			return u, fmt.Errorf("no metric %s: %w", name, errors.Join(r.failure(), io.ErrUnexpectedEOF))
		}
		if *into, err = strconv.ParseFloat(match[1], 64); err != nil {
			return u, err
		}
	}
	return u, nil
}

func (u usage) String() string {
	return fmt.Sprintf("%.0f descriptors, %.0f goroutines, %.1f MB of heap", u.descriptors, u.goroutines, u.heap/1e6)
}

// returned reports whether little more is held than before.
func (u usage) returned(before usage) bool {
	return u.descriptors <= before.descriptors+2 && u.goroutines <= before.goroutines+3 && u.heap <= before.heap*1.5+16e6
}

func TestAgentUnderAttackAnswersAndReturnsWhatItTook(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can attack as another user")
	}
	w := testWorld(t, user{name: "self"})
	must(t, w.isolate(t.Context()))
	must(t, os.Mkdir(w.state(), 0o700))
	must(t, w.run(t.Context(), "mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", w.state()).failure())
	must(t, w.setup(map[string]string{"forward.yaml": forwarding(0)}))
	must(t, w.start(t.Context()))
	must(t, until(t.Context(), patience, func(ctx context.Context) error { return w.allDone(ctx).failure() }))
	must(t, os.Chmod(w.path("socket"), 0o666)) // so that other users come as far as they can
	before, err := w.usage(t.Context())
	must(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), *attackTime)
	defer cancel()
	// A full disk; how much fits does not matter.
	_ = w.run(t.Context(), "dd", "if=/dev/zero", "of="+w.path("state/full"), "bs=64k")
	all := attacks()
	probes := []*probe{{name: "status", try: w.answersStatus}, {name: "healthz", try: w.answersHealthz}, {name: "changed document", try: w.landsAChange()}}
	var running sync.WaitGroup
	for _, a := range all {
		running.Go(func() {
			if err := a.run(ctx, w); err != nil {
				t.Errorf("%s: %v", a.name, err)
			}
		})
	}
	for _, p := range probes {
		running.Go(func() { p.run(ctx) })
	}
	running.Wait()
	must(t, w.agent.running())
	for _, a := range all {
		t.Logf("%-5s %-14s %6d connections, %d refused", a.network, a.name, a.made.Load(), a.failed.Load())
	}
	for _, p := range probes {
		t.Logf("%-16s %4d times, the longest %v, %d longer than %v", p.name, p.times, p.longest.Round(time.Millisecond), p.late, promptly)
		if p.err != nil || p.times == 0 {
			t.Errorf("%s: %v", p.name, p.err)
		}
		if p.late > 0 && *attackTime > shortAttack {
			t.Errorf("%s: %d of %d took longer than %v", p.name, p.late, p.times, promptly)
		}
	}
	var after usage
	err = until(t.Context(), patience, func(ctx context.Context) (err error) {
		if after, err = w.usage(ctx); err == nil && !after.returned(before) {
			err = fmt.Errorf("before: %v; after: %v", before, after)
		}
		return err
	})
	t.Logf("before: %v; after: %v", before, after)
	must(t, err)
	info, err := os.Stat(w.log())
	must(t, err)
	t.Logf("the log has %d kB", info.Size()>>10)
	must(t, w.stop())
}
