package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
)

// Run runs this program again in a new sandbox, waits for it and returns its exit code: 128+n if signal n killed it, as in a
// shell.
//
// The package comment describes signal handling. When ctx is done, the child gets a SIGTERM and Run keeps waiting; if a
// signal canceled ctx, the child would get two signals.
//
// Errors: an UnavailableError if the machine forbids the sandbox, ctx's error if it is done before the start, others for
// files and listeners. The exit code is valid only if the error is nil.
func Run(ctx context.Context, cfg Config) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if err := sweep(os.TempDir()); err != nil {
		logger.Warn("directories of earlier sandboxes are left over", "error", err)
	}
	point, err := newMountPoint(os.TempDir())
	if err != nil {
		return 0, err
	}
	defer func() {
		if err := point.remove(); err != nil {
			logger.Warn("a directory of the sandbox is left over", "error", err)
		}
	}()
	cmd, err := command(cfg, point.path)
	if err != nil {
		return 0, err
	}
	// Before the start: a signal that killed the parent would kill the child at once.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(signals)
	ended, err := start(cmd)
	closeFiles(cmd.ExtraFiles)
	if err != nil {
		return 0, err
	}
	logger.Debug("sandbox started", "pid", cmd.Process.Pid)
	return supervise(ctx, cmd.Process, signals, ended, logger)
}

// command describes the child. The caller closes its ExtraFiles.
func command(cfg Config, stateDir string) (*exec.Cmd, error) {
	ids, err := namespaceIDs()
	if err != nil {
		return nil, err
	}
	files, numbers, err := listenerFiles(cfg.Listeners)
	if err != nil {
		return nil, err
	}
	variable, err := handover{Outside: ids, StateDir: stateDir, Listeners: numbers}.variable()
	if err != nil {
		closeFiles(files)
		return nil, err
	}
	env := cfg.Env
	if env == nil {
		env = os.Environ()
	}
	cmd := &exec.Cmd{
		Path:        "/proc/self/exe", // not os.Args[0]: that file may have been replaced
		Args:        append([]string{os.Args[0]}, cfg.Args...),
		Env:         append(slices.Clone(env), variable),
		Stdin:       os.Stdin,
		Stdout:      cfg.Stdout,
		Stderr:      cfg.Stderr,
		ExtraFiles:  files,
		SysProcAttr: attributes(),
	}
	if cmd.Stdout == nil {
		cmd.Stdout = os.Stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	return cmd, nil
}

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:                 syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		GidMappingsEnableSetgroups: false,
		Setpgid:                    true,
		Pdeathsig:                  syscall.SIGKILL,
	}
}

// listenerFiles duplicates the listeners' descriptors, sorted by name, and returns the descriptor number of each in the child.
func listenerFiles(listeners map[string]net.Listener) ([]*os.File, map[string]int, error) {
	const firstExtra = 3 // after stdin, stdout and stderr, see exec.Cmd
	var files []*os.File
	numbers := make(map[string]int, len(listeners))
	for _, name := range sortedNames(listeners) {
		listener, ok := listeners[name].(interface{ File() (*os.File, error) })
		if !ok {
			closeFiles(files)
			return nil, nil, fmt.Errorf("listener %q for the sandbox is a %T: expected a unix or TCP listener", name, listeners[name])
		}
		file, err := listener.File()
		if err != nil {
			closeFiles(files)
			return nil, nil, fmt.Errorf("listener %q for the sandbox: %w", name, err)
		}
		numbers[name] = firstExtra + len(files)
		files = append(files, file)
	}
	return files, numbers, nil
}

// closeFiles closes duplicates that were neither read nor written, so errors do not matter.
func closeFiles(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

// start starts cmd and returns a channel that receives the result of cmd.Wait.
func start(cmd *exec.Cmd) (<-chan error, error) {
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel sends the parent death signal when the thread that started the child ends, so keep that thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, explain("starting the program in new user, network and mount namespaces", err)
	}
	return ended, nil
}

// forwarded returns the signals to forward to the child: not SIGHUP if this process was started with it ignored (nohup).
// Shells also start background commands with SIGINT ignored, but only because of Ctrl-C; a SIGINT sent to this process is
// intended.
func forwarded() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// supervise forwards signals to the child until it has ended.
func supervise(
	ctx context.Context, child *os.Process, signals <-chan os.Signal, ended <-chan error, logger *slog.Logger,
) (int, error) {
	send := func(sig os.Signal) {
		logger.Debug("signal for the sandbox", "signal", sig.String(), "pid", child.Pid)
		if err := child.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			logger.Warn("signal for the sandbox", "signal", sig.String(), "pid", child.Pid, "error", err)
		}
	}
	done := ctx.Done()
	for {
		select {
		case sig := <-signals:
			send(sig)
		case <-done:
			send(syscall.SIGTERM)
			done = nil
		case err := <-ended:
			return exitCode(err)
		}
	}
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 0, fmt.Errorf("waiting for the sandbox: %w", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
