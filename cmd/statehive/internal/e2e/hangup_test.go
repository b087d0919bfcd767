package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A process that waits until somebody reads its error messages has not come to running the agent, but is past its beginning.
func TestSIGHUPBeforeTheStartEndsCommandsButNotTheAgent(t *testing.T) {
	// A child would inherit that this process ignores the signal, as one started by nohup does.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for command, survives := range map[string]bool{"agent": true, "pid": false} {
		t.Run(command, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			if _, err := w.Write(make([]byte, 65536)); err != nil { // the pipe is full
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program(), command, "--no-such-flag")
			cmd.Stderr, cmd.SysProcAttr = w, &syscall.SysProcAttr{}
			p, err := startProcess(cmd)
			if err = errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
			defer p.kill()
			err = until(t.Context(), patience, func(context.Context) error { return writesErrors(cmd.Process.Pid) })
			if err = errors.Join(err, cmd.Process.Signal(syscall.SIGHUP)); err != nil {
				t.Fatal(err)
			}
			if !survives {
				<-p.exited
			}
			text, err := io.ReadAll(r)
			<-p.exited
			status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
			told := bytes.Contains(text, []byte("unknown flag"))
			if err != nil || survives && (status.ExitStatus() != 1 || !told) || !survives && status.Signal() != syscall.SIGHUP {
				t.Errorf("%v, error %v, %q", p.cmd.ProcessState, err, bytes.Trim(text, "\x00"))
			}
		})
	}
}

// writesErrors returns nil if a thread of a process is in the system call that writes to standard error.
func writesErrors(pid int) error {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		return err
	}
	want := fmt.Sprintf("%d 0x2 ", syscall.SYS_WRITE)
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(text), want) {
			return nil
		}
	}
	return errors.New("it does not write")
}
