package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary plays all parts: the test, the parent (a process of its own, so that it can be killed and can be another
// user) and the child in the sandbox. scenarioVariable tells the parent and the child what to do.
const (
	scenarioVariable  = "SANDBOX_TEST_SCENARIO"
	directoryVariable = "SANDBOX_TEST_DIR"
	nobody            = 65534
	failure           = 99 // the exit code of a part that could not play
	patience          = 20 * time.Second
)

func TestMain(m *testing.M) {
	scenario := os.Getenv(scenarioVariable)
	inherited, inside, err := Inside()
	switch {
	case scenario == "":
		// For the other parts: the race detector makes each exit wait a second.
		if err := os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0"); err != nil {
			os.Exit(complain(err))
		}
		goleak.VerifyTestMain(m)
	case err != nil:
		os.Exit(complain(err))
	case inside:
		os.Exit(playChild(scenario, inherited))
	default:
		os.Exit(playParent())
	}
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return failure
}

// playParent does what the agent does outside: it opens the listeners, prints where metrics are, and runs the sandbox.
func playParent() int {
	api, err := net.Listen("unix", socketPath(os.Getenv(directoryVariable)))
	if err != nil {
		return complain(err)
	}
	defer api.Close()
	metrics, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return complain(err)
	}
	defer metrics.Close()
	fmt.Println(metrics.Addr())
	code, err := Run(context.Background(), Config{Listeners: map[string]net.Listener{"api": api, "metrics": metrics}})
	if err == nil {
		err = goleak.Find()
	}
	if err != nil {
		return complain(err)
	}
	return code
}

func socketPath(dir string) string { return filepath.Join(dir, "api.sock") }

// identity is a user as whom the tests are run.
type identity struct {
	name       string
	credential *syscall.Credential
}

// identities are root and an ordinary user where we may choose, else the user that we are.
func identities() []identity {
	if os.Geteuid() != 0 {
		return []identity{{name: "self"}}
	}
	ordinary := &syscall.Credential{Uid: nobody, Gid: nobody}
	return []identity{{name: "root"}, {name: "ordinary user", credential: ordinary}}
}

func forEachIdentity(t *testing.T, test func(*testing.T, identity)) {
	for _, who := range identities() {
		t.Run(who.name, func(t *testing.T) { test(t, who) })
	}
}

// parent is a running process that has started a sandbox.
type parent struct {
	t       *testing.T
	cmd     *exec.Cmd
	stdout  *bufio.Reader // the child writes to it too
	client  *http.Client
	tmp     string // its TMPDIR
	metrics string // address
	exited  chan int
}

func startParent(t *testing.T, who identity, scenario string) *parent {
	t.Helper()
	dir := directoryFor(t, who)
	tmp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	giveTo(t, who, tmp)
	cmd := exec.Command(copyOfTestBinary(t, dir))
	cmd.Env = append(os.Environ(), scenarioVariable+"="+scenario, directoryVariable+"="+dir, "TMPDIR="+tmp)
	cmd.Stderr = t.Output()
	cmd.Dir = "/"
	cmd.WaitDelay = patience // a child which outlives its parent must not hang the test by holding stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential, Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &parent{
		t: t, cmd: cmd, tmp: tmp, exited: make(chan int, 1),
		stdout: bufio.NewReader(stdout), client: unixClient(socketPath(dir)),
	}
	t.Cleanup(p.end)
	go func() {
		_ = cmd.Wait() // its result is the exit code
		p.exited <- cmd.ProcessState.ExitCode()
		close(p.exited)
	}()
	p.metrics = p.line()
	return p
}

// line reads the next line that the parent or the child prints.
func (p *parent) line() string {
	p.t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		p.t.Fatalf("reading what the parent or the child prints: %v", err)
	}
	return strings.TrimSpace(line)
}

// directoryFor makes a directory that the identity owns and can reach: those of t.TempDir are closed to others.
func directoryFor(t *testing.T, who identity) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandbox-test-*") //nolint:usetesting // see above; and its paths are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	giveTo(t, who, dir)
	return dir
}

func giveTo(t *testing.T, who identity, path string) {
	t.Helper()
	if who.credential == nil {
		return
	}
	if err := os.Chown(path, int(who.credential.Uid), int(who.credential.Gid)); err != nil {
		t.Fatal(err)
	}
}

func copyOfTestBinary(t *testing.T, dir string) string {
	t.Helper()
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	path := filepath.Join(dir, "sandbox.test")
	target, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(target, source); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func unixClient(path string) *http.Client {
	var dialer net.Dialer
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) }
	return &http.Client{
		Timeout:   patience,
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
	}
}

// ask calls the child over the unix socket.
func (p *parent) ask(path string, into any) {
	p.t.Helper()
	ask(p.t, p.client, "http://sandbox"+path, into)
}

func ask(t *testing.T, client *http.Client, url string, into any) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
}

func (p *parent) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// exit makes the child exit and returns the parent's exit code.
func (p *parent) exit(code int) int {
	p.t.Helper()
	var accepted bool
	p.ask("/exit?code="+strconv.Itoa(code), &accepted)
	return p.exitCode()
}

func (p *parent) exitCode() int {
	p.t.Helper()
	select {
	case code := <-p.exited:
		return code
	case <-time.After(patience):
		p.t.Fatalf("the parent still runs after %v", patience)
		return 0
	}
}

func (p *parent) end() {
	_ = p.cmd.Process.Kill() // it has usually ended
	for range p.exited {     // until closed
	}
}

// eventually polls until the condition holds, and fails the test if it does not in time.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
