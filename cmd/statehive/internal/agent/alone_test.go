package agent

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// testLock returns a name that no other test and no agent uses.
func testLock(t *testing.T) string {
	return fmt.Sprintf("@statehive-test-%d-%s", os.Getpid(), t.Name())
}

func TestNamespaceLockIsHeldByOneAndNamesIt(t *testing.T) {
	name := testLock(t)
	first, err := lockNamespace(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		second, err := lockNamespace(name, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Fatal("a second one has it", second.Close())
		}
		want := fmt.Sprintf("process %d of user %d (", os.Getpid(), os.Getuid())
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), os.Args[0]) {
			t.Errorf("%v: expected %q and %q in it", err, want, os.Args[0])
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := lockNamespace(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal("after the first has given it up:", err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// Another program may have the name, and need not answer.
func TestHolderOfTheNamespaceLockNeedNotAnswer(t *testing.T) {
	name := testLock(t)
	silent, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := lockNamespace(name, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d of", os.Getpid())) {
		t.Errorf("got %v", err)
	}
}

// exhausted is a listener for which there are no file descriptors.
type exhausted struct {
	net.Listener
	tries int
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.tries++; l.tries > 1000 {
		return nil, net.ErrClosed
	}
	return nil, unix.EMFILE
}

func (*exhausted) Close() error { return nil }

func TestHolderOfTheNamespaceLockRestsWhenItCannotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := &exhausted{}
		lock := newNamespaceLock(listener)
		<-time.After(10*answerPause + answerPause/2)
		if err := lock.Close(); err != nil {
			t.Error(err)
		}
		if listener.tries != 11 {
			t.Errorf("tried %d times, expected 11", listener.tries)
		}
	})
}

func TestRefusalOfASecondAgentSaysWhatToDo(t *testing.T) {
	for _, test := range []struct {
		by   holder
		want string
	}{
		{
			holder{pid: 12, uid: 3, command: `"statehive agent"`},
			`: process 12 of user 3 ("statehive agent"). Two would undo each other's changes: stop that one (kill 12), or `,
		},
		{holder{pid: 12, uid: 3}, `: process 12 of user 3. Two`},
		{
			holder{uid: 65534},
			`: a process of another PID namespace, such as a container that shares this network, of user 65534. ` +
				`Two would undo each other's changes: stop that one where it was started, or `,
		},
	} {
		if got := test.by.refusal().Error(); !strings.Contains(got, test.want) {
			t.Errorf("got %s\nwithout %s", got, test.want)
		}
	}
}

// A process can have a command line of any length, also one that takes no memory.
func TestLittleIsReadOfACommandLine(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "read line", strings.Repeat("x", 100_000))
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	line := ""
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(line, "xxx") && time.Now().Before(deadline); runtime.Gosched() {
		line = commandLine(cmd.Process.Pid) // that of this process until the program runs
	}
	if want := "\"sh -c read line " + strings.Repeat("x", maxCommand-len("sh -c read line ")) + "…\""; line != want {
		t.Errorf("the command line is %s, want %s", line, want)
	}
}

func TestCommandLineOfAProcessThatIsGoneIsEmpty(t *testing.T) {
	if got := commandLine(0); got != "" {
		t.Errorf("got %q", got)
	}
}
