package readme

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a command of the tour may need on a slow machine until it
// prints what the README shows.
const patience = 30 * time.Second

// step is a command of a console block and what is printed below it.
type step struct {
	place    string // the document and the line
	command  string
	expected []string
}

// steps reads the console blocks of a document: "$ " begins a command.
func steps(name, document string) (all []step) {
	inside := false
	for i, line := range strings.Split(document, "\n") {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case !inside:
			inside = line == "```console"
		case line == "```":
			inside = false
		case isCommand:
			all = append(all, step{place: fmt.Sprintf("%s:%d", name, i+1), command: command})
		case len(all) > 0:
			last := &all[len(all)-1]
			last.expected = append(last.expected, line)
		}
	}
	return all
}

// pattern matches output that is as a step shows it: "…" stands for any text, and
// alone in a line for any lines; white space counts as one blank.
func (s step) pattern() *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?m)\A`)
	for _, line := range s.expected {
		if line == "…" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		for i, field := range strings.Fields(line) {
			if i > 0 {
				b.WriteString(` ?`)
			}
			b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(field), "…", ".*"))
		}
		b.WriteString(`\n`)
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// normalized folds white space, so that the width of columns does not matter.
func normalized(output string) string {
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestPatternsMatchAsTheReadmeMeansThem(t *testing.T) {
	s := step{expected: []string{"NAME  AGE", "…", "eth0  …s ago", "…"}}
	for output, want := range map[string]bool{
		"NAME   AGE\neth0   3s ago\n":                   true,
		"NAME   AGE\nlo  1s ago\neth0 3s ago\neth1 x\n": true,
		"NAME   AGE\nlo  1s ago\n":                      false,
		"warning\nNAME   AGE\neth0   3s ago\n":          false,
	} {
		if got := s.pattern().MatchString(normalized(output)); got != want {
			t.Errorf("%q: matched is %v, want %v", output, got, want)
		}
	}
}

// terminal runs commands in a copy of the repository, as a newcomer would.
type terminal struct {
	dir string
	env []string
	// address is where the copy's agent serves metrics, in place of the default.
	address string
}

func TestTheTourShowsWhatTheReadmeSays(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	tour := steps("README.md", string(readme))
	if len(tour) < 10 {
		t.Fatalf("README.md has only %d commands in console blocks", len(tour))
	}
	term := newTerminal(t)
	term.startAgent(t)
	for _, s := range tour {
		if len(s.expected) == 0 {
			term.do(t, s)
		} else {
			term.await(t, s)
		}
		if t.Failed() {
			return
		}
	}
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	term := &terminal{dir: t.TempDir(), address: freeAddress(t)}
	copyRepository(t, term.dir)
	term.env = append(os.Environ(),
		"STATEHIVE_SOCKET="+filepath.Join(t.TempDir(), "agent.sock"),
		"STATEHIVE_METRICS_ADDRESS="+term.address)
	return term
}

// freeAddress returns one that will hardly be taken while the agent is built: others take
// ports of 127.0.0.1 or of all addresses, not of just some other one of this machine.
func freeAddress(t *testing.T) string {
	t.Helper()
	n := rand.Uint32()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+n%254, n>>8%256, 1+n>>16%254))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// copyRepository copies what belongs to the repository, changes included.
func copyRepository(t *testing.T, to string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = "../.."
	names, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for name := range strings.SplitSeq(strings.Trim(string(names), "\x00"), "\x00") {
		if err := copyFile(filepath.Join("..", "..", name), filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return nil // deleted, and not committed yet
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// startAgent types `make run` into the first terminal, and Ctrl-C at the end.
func (term *terminal) startAgent(t *testing.T) {
	t.Helper()
	run := exec.Command("make", "run")
	run.Dir, run.Env = term.dir, term.env
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	go watchOutput(t, output, ready, ended)
	t.Cleanup(func() {
		if err := syscall.Kill(-run.Process.Pid, syscall.SIGINT); err != nil {
			t.Errorf("Ctrl-C: %v", err)
		}
		<-ended
		_ = run.Wait() // make reports the interrupt as its own failure
	})
	select {
	case <-ready:
	case <-ended:
		t.Fatal("make run ended before the agent was ready")
	case <-time.After(5 * time.Minute): // it builds the agent
		t.Fatal("make run: the agent did not get ready")
	}
}

// watchOutput logs what is printed until it ends; ready closes when the agent
// says what to type in a second terminal.
func watchOutput(t *testing.T, output io.Reader, ready, ended chan struct{}) {
	defer close(ended)
	said := false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		t.Log(lines.Text())
		if !said && strings.Contains(lines.Text(), "In a second terminal") {
			said = true
			close(ready)
		}
	}
}

func (term *terminal) run(ctx context.Context, command string) (output string, err error) {
	command = strings.ReplaceAll(command, "127.0.0.1:9464", term.address)
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env = term.dir, term.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return stdout.String(), err
}

// do runs a command that changes something and prints nothing.
func (term *terminal) do(t *testing.T, s step) {
	t.Helper()
	if output, err := term.run(t.Context(), s.command); err != nil || output != "" {
		t.Errorf("%s: $ %s\nprinted %q, error %v", s.place, s.command, output, err)
	}
}

// await runs a command that shows something until it shows what the README does.
func (term *terminal) await(t *testing.T, s step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	var output string
	var err error
	for ctx.Err() == nil {
		output, err = term.run(t.Context(), s.command)
		if s.pattern().MatchString(normalized(output)) {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
	t.Errorf("%s: $ %s\nwanted:\n%s\n\ngot (error: %v):\n%s", s.place, s.command, strings.Join(s.expected, "\n"), err, output)
}
