package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// process is one that runs beside the test, and ends with it.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when err is set
	err    error
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go func() {
		// The kernel sends that signal when the thread ends that made the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.exited)
		}
	}()
	return p, <-started
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

// stop asks the process to end, and returns how it did.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(err, p.err)
	}
	select {
	case <-p.exited:
		return p.err
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("still runs %v after the signal to end", patience), p.dump())
	}
}

// dump has a process that hangs write its stacks to its log, and end.
func (p *process) dump() error {
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return err
	}
	<-p.exited
	return p.err
}

// running fails when the process has ended by itself.
func (p *process) running() error {
	select {
	case <-p.exited:
		return fmt.Errorf("it has ended: %w", errors.Join(p.err, io.ErrUnexpectedEOF))
	default:
		return nil
	}
}

// flags are those of the agent of this world.
func (w *world) flags() []string {
	flags := []string{"--config-dir", w.documents(), "--metrics-address", w.metrics}
	if w.namespace == nil {
		return append(flags, "--sandbox")
	}
	return append(flags, "--state-dir", w.state())
}

// launch starts the agent and does not wait until it answers.
func (w *world) launch(more ...string) error {
	log, err := os.OpenFile(w.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := w.command(context.Background(), slices.Concat(w.wrapper, []string{program(), "agent"}, w.flags(), more)...)
	cmd.Cancel, cmd.Stdout, cmd.Stderr = nil, log, log
	w.agent, err = startProcess(cmd)
	return errors.Join(err, log.Close())
}

// start starts the agent and waits until it answers.
func (w *world) start(ctx context.Context, more ...string) error {
	before := w.starts()
	if err := w.launch(more...); err != nil {
		return err
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	err := until(ctx, patience, func(ctx context.Context) error {
		if err := w.agent.running(); err != nil {
			giveUp(err)
			return err
		}
		if w.starts() == before {
			return errors.New("it has not started: whoever stops it now interrupts it")
		}
		return w.statehive(ctx, "pid").failure()
	})
	if err != nil {
		log, _ := os.ReadFile(w.log()) // it is an error already
		return fmt.Errorf("start the agent: %w\n%s", err, log)
	}
	return nil
}

// starts returns how many agents have started so far, according to the log.
func (w *world) starts() int {
	log, _ := os.ReadFile(w.log()) // there may be none yet
	return bytes.Count(log, []byte("msg=Started"))
}

var errNotRunning = errors.New("no agent runs")

func (w *world) stop() error {
	if w.agent == nil {
		return errNotRunning
	}
	agent := w.agent
	w.agent = nil
	return agent.stop()
}

func (w *world) reload() error {
	if w.agent == nil {
		return errNotRunning
	}
	return w.agent.cmd.Process.Signal(syscall.SIGHUP)
}

func (w *world) kill() error {
	if w.agent == nil {
		return errNotRunning
	}
	w.agent.kill()
	w.agent = nil
	return nil
}

// namespace is a process that does nothing but hold namespaces: a network and a mount
// namespace, and usually a user namespace.
type namespace struct {
	process *process
	stdin   io.Closer
}

func (n *namespace) pid() int { return n.process.cmd.Process.Pid }

func (n *namespace) close() {
	_ = n.stdin.Close() // lets it end
	n.process.kill()
}

// isolate puts the world into namespaces of its own.
func (w *world) isolate(ctx context.Context) error {
	uid, gid := os.Getuid(), os.Getgid()
	if w.user.credential != nil {
		return errors.New("only worlds of the user that runs the tests can be isolated")
	}
	return w.hold(ctx, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: gid, Size: 1}},
	})
}

// hold puts the world into the namespaces of a new process.
func (w *world) hold(ctx context.Context, attr *syscall.SysProcAttr) error {
	cmd := w.command(context.Background(), "cat")
	cmd.Cancel, cmd.SysProcAttr = nil, attr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	process, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("new namespaces: %w", err)
	}
	w.namespace = &namespace{process, stdin}
	return w.run(ctx, "ip", "link", "set", "lo", "up").failure()
}

// setup writes documents: text by file name.
func (w *world) setup(documents map[string]string) error {
	for name, text := range documents {
		if err := replaceFile(w.path("documents/"+name), text); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a file as careful editors do.
func replaceFile(path, text string) error {
	next := path + ".new~"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// edit replaces a text in a file, where it must be.
func edit(path, old, text string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(data), old) {
		return fmt.Errorf("%s does not contain %q:\n%s", path, old, data)
	}
	return replaceFile(path, strings.ReplaceAll(string(data), old, text))
}
