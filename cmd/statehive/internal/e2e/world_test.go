package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// world is what an agent under test lives in: a directory with its documents, a
// user, and either a sandbox that it makes itself, or network namespaces around
// it.
type world struct {
	dir       string
	user      user
	namespace *namespace // nil: the agent makes a sandbox
	metrics   string     // the address
	wrapper   []string   // runs the agent, if it is to be run by another program
	agent     *process   // nil when it does not run
}

// newWorld makes the world in a directory, which it gives to the user.
func newWorld(dir string, who user) (*world, error) {
	w := &world{dir: dir, user: who}
	dirs := []string{dir, w.documents(), w.path("tmp")}
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	var err error
	w.metrics, err = freeAddress()
	return w, errors.Join(err, who.own(dirs...))
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) documents() string { return w.path("documents") }

func (w *world) state() string { return w.path("state") }

func (w *world) log() string { return w.path("agent.log") }

// freeAddress returns one that is free, and will hardly be taken until it is listened on:
// others take ports of 127.0.0.1 or of all addresses, not of just some other one of this machine.
func freeAddress() (string, error) {
	n := rand.Uint32()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+n%254, n>>8%256, 1+n>>16%254))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// close ends what runs. A crashed or racing agent makes it fail.
func (w *world) close() error {
	if w.agent != nil {
		w.agent.kill()
	}
	if w.namespace != nil {
		w.namespace.close()
	}
	log, err := os.ReadFile(w.log())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, sign := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if _, found, ok := strings.Cut(string(log), sign); ok {
			return fmt.Errorf("the agent's log has: %s%s", sign, found)
		}
	}
	return err
}

// command runs where the agent is started, as its user.
func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	if w.namespace != nil {
		args = append(append(enter(w.namespace.pid()), "-m", "--wdns="+w.dir), args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = w.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + w.dir,
		"TMPDIR=" + w.path("tmp"),
		"STATEHIVE_SOCKET=" + w.path("socket"),
		// Under the race detector each exit would wait for a second.
		"GORACE=atexit_sleep_ms=0",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.user.credential}
	cmd.WaitDelay = time.Second
	return cmd
}

// enter is the beginning of a command in the network namespace of a process, and in its user namespace; if it has none
// of its own, in its IPC namespace, too.
func enter(pid int) []string {
	args := []string{"nsenter", "--preserve-credentials", "-n", "-t", fmt.Sprint(pid)}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
	if ours, _ := os.Readlink("/proc/self/ns/user"); err == nil && ours == theirs {
		return append(args, "-i") // the kernel refuses to enter a user namespace where one is
	}
	return append(args, "-U")
}

// result is what came of a command.
type result struct {
	stdout, stderr string
	err            error // of starting it, or *exec.ExitError
}

func (r result) String() string { return r.stdout + r.stderr }

// failure is an error with what the command printed.
func (r result) failure() error {
	if r.err == nil {
		return nil
	}
	return fmt.Errorf("%w\n%s", r.err, r)
}

func (w *world) run(ctx context.Context, args ...string) result {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := w.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("%v: %w", args, context.Cause(ctx))
	}
	return result{stdout.String(), stderr.String(), err}
}

func program() string { return os.Getenv(programVariable) }

// statehive runs a command of the command line.
func (w *world) statehive(ctx context.Context, args ...string) result {
	return w.run(ctx, append([]string{program()}, args...)...)
}

// inside runs a command in the network namespace of the agent.
func (w *world) inside(ctx context.Context, args ...string) result {
	if w.namespace != nil {
		return w.run(ctx, args...)
	}
	pid := w.statehive(ctx, "pid")
	var number int
	if _, err := fmt.Sscan(pid.stdout, &number); pid.err != nil || err != nil {
		pid.err = errors.Join(pid.err, err)
		return pid
	}
	return w.run(ctx, append(enter(number), args...)...)
}

// scrape reads what is served at the metrics address.
func (w *world) scrape(ctx context.Context, path string) result {
	return w.run(ctx, "curl", "--silent", "--show-error", "--fail", "http://"+w.metrics+path)
}

// aTry is what a try takes at most where the machine has time for the tests.
const aTry = 100 * time.Millisecond

// until repeats what fails until it does not, or the time is over. Where the machine
// is busy with something else the agent is as slow as the tries are: time is over only
// after as many tries as fit in it elsewhere, unless they take for ever.
func until(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	began := time.Now()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for tries := 1; ; tries++ {
		err := try(ctx)
		if err == nil {
			return nil
		}
		// What was tried at the very end may have begun before it.
		took := time.Since(began)
		if took > limit && (tries >= int(limit/aTry) || took > limit+patience) {
			return fmt.Errorf("not within %v, in %d tries: %w", limit, tries, err)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// testWorld makes a world for a test in Go.
func testWorld(t *testing.T, who user) *world {
	t.Helper()
	// The directories of t.TempDir are closed to others, and too long for a socket.
	dir, err := os.MkdirTemp("", "e2e-") //nolint:usetesting // see above
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	w, err := newWorld(dir, who)
	must(t, err)
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
		if log, err := os.ReadFile(w.log()); err == nil && t.Failed() {
			t.Logf("the agent's log:\n%s", log)
		}
	})
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
