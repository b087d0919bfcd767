package hive_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

// childVariable has TestChildOnATerminal run a hive.
const childVariable = "HIVE_TEST_CHILD"

// TestChildOnATerminal is the process that TestAHangupOfTheTerminalStopsTheHive starts. It tells on standard output what it does.
func TestChildOnATerminal(t *testing.T) {
	how := os.Getenv(childVariable)
	if how == "" {
		return
	}
	if how == "nohup" {
		signal.Ignore(syscall.SIGHUP)
	}
	h := newHive(t, hive.Options{}, cell.Invoke(func(l cell.Lifecycle, reloads *hive.Reloads) {
		l.Append(cell.Hook{OnStart: func(context.Context) error { return say("started") }})
		reloads.Add("say", func(context.Context) error { return say("reloaded") })
	}))
	if err := errors.Join(h.Run(t.Context()), say("stopped")); err != nil {
		t.Error(err)
	}
}

func say(text string) error {
	_, err := fmt.Println(text)
	return err
}

// terminal returns the two ends of a new one.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var ioctlErr error
	err = raw.Control(func(fd uintptr) {
		if ioctlErr = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioctlErr == nil {
			number, ioctlErr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err = errors.Join(err, ioctlErr); err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// What is run from a terminal ends with it, as any program does; what was started by nohup, or without a terminal, does not, and
// reloads if it is sent a SIGHUP.
func TestAHangupOfTheTerminalStopsTheHive(t *testing.T) {
	// A child would inherit that this process ignores the signal, as one started by nohup does.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for how, stops := range map[string]bool{"foreground": true, "nohup": false, "daemon": false} {
		t.Run(how, func(t *testing.T) {
			master, slave := terminal(t)
			out, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = out.Close() }()
			if err := out.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestChildOnATerminal$")
			cmd.Env = append(os.Environ(), childVariable+"="+how)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, w, t.Output()
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: how != "daemon", Pdeathsig: syscall.SIGKILL}
			if err := errors.Join(cmd.Start(), w.Close(), slave.Close()); err != nil {
				t.Fatal(err)
			}
			ended := false
			defer func() {
				if !ended {
					_ = errors.Join(cmd.Process.Kill(), cmd.Wait()) // the test has failed
				}
			}()
			lines := bufio.NewScanner(out)
			expect := func(want string) {
				t.Helper()
				if !lines.Scan() || lines.Text() != want {
					t.Fatalf("the process says %q, expected %q", lines.Text(), want)
				}
			}
			send := func(s syscall.Signal) {
				t.Helper()
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			expect("started")
			send(syscall.SIGHUP) // the terminal is there
			expect("reloaded")
			if err := master.Close(); err != nil {
				t.Fatal(err)
			}
			if !stops {
				if how == "daemon" {
					send(syscall.SIGHUP)
				}
				expect("reloaded")
				send(syscall.SIGTERM)
			}
			expect("stopped")
			ended = true
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
