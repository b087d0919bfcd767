package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// action is what a document tells its reader to do: to write a file, or to type a command.
type action struct {
	file, text string // a file, if there is one
	step       step
}

// actions reads a document from its beginning to its end.
func actions(name, document string) (all []action) {
	const fence = "```go new "
	for read := ""; document != ""; {
		before, rest, found := strings.Cut(document, fence)
		// Empty lines in place of what was read keep the numbers of lines right.
		for _, s := range steps(name, strings.Repeat("\n", strings.Count(read, "\n"))+before) {
			all = append(all, action{step: s})
		}
		if !found {
			break
		}
		file, rest, _ := strings.Cut(rest, "\n")
		text, rest, _ := strings.Cut(rest, "```\n")
		all = append(all, action{file: file, text: text})
		read += before + "\n" + text + "\n"
		document = rest
	}
	return all
}

func TestActionsOfADocumentAreInOrderWithTheirPlaces(t *testing.T) {
	document := "```console\n$ one\n```\n\n```go new a.go\npackage a\n```\n\n```console\n$ two\nout\n```\n"
	want := []action{
		{step: step{place: "x.md:2", command: "one"}},
		{file: "a.go", text: "package a\n"},
		{step: step{place: "x.md:10", command: "two", expected: []string{"out"}}},
	}
	if diff := cmp.Diff(want, actions("x.md", document), cmp.AllowUnexported(action{}, step{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatTheGuideSaysMakesAModule(t *testing.T) {
	guide, err := os.ReadFile("../../Documentation/hive.md")
	if err != nil {
		t.Fatal(err)
	}
	all := actions("Documentation/hive.md", string(guide))
	term := &terminal{dir: t.TempDir(), address: freeAddress(t)}
	copyRepository(t, term.dir)
	socket := filepath.Join(socketDir(t), "api.sock")
	term.env = append(os.Environ(), "GOPROXY=off", "DIRSIZES_SOCKET="+socket, "DIRSIZES_METRICS_ADDRESS="+term.address)
	var background *exec.Cmd
	for _, a := range all {
		command, isBackground := strings.CutSuffix(a.step.command, " &")
		switch {
		case a.file != "":
			write(t, filepath.Join(term.dir, a.file), a.text)
		case isBackground:
			background = term.startInBackground(t, command)
		case a.step.command == "kill %1":
			end(t, background)
		case len(a.step.expected) == 0:
			term.do(t, a.step)
		default:
			term.await(t, a.step)
		}
		if t.Failed() {
			return
		}
	}
	if len(all) < 15 || background == nil {
		t.Errorf("only %d actions were found", len(all))
	}
}

// socketDir is short enough for a socket, wherever temporary files are.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "guide") //nolint:usetesting // t.TempDir has the long name of the test in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (term *terminal) startInBackground(t *testing.T, command string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "exec "+command)
	cmd.Dir, cmd.Env = term.dir, term.env
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Wait() // the test has failed, and its context has ended the command
		}
	})
	return cmd
}

// end stops what runs in the background, which is to end well.
func end(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if cmd == nil {
		t.Fatal("nothing runs in the background")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %v", cmd, err)
	}
}
