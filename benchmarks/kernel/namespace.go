package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// In the environment of a process inside: the trial that it is to run, and options.
const (
	trialVariable   = "STATEHIVE_BENCH_TRIAL"
	optionsVariable = "STATEHIVE_BENCH_OPTIONS"
)

// isolated runs a trial in this program, inside new namespaces, and returns what it
// has measured, also when it fails.
func isolated(ctx context.Context, o options, trial string) (figures, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	env := append(os.Environ(), trialVariable+"="+trial, optionsVariable+"="+string(text))
	all, err := inNamespaces(ctx, env, namespaces(os.Geteuid() == 0))
	if os.Geteuid() == 0 && errors.Is(err, fs.ErrPermission) {
		all, err = inNamespaces(ctx, env, namespaces(false)) // root of a container
	}
	if err != nil {
		return all, fmt.Errorf("trial %s: %w", trial, err)
	}
	return all, nil
}

// namespaces are those of a trial. Root needs no user namespace, and has more power
// without: receive buffers as large as it wants.
func namespaces(root bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	if !root {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

func inNamespaces(ctx context.Context, env []string, attr *syscall.SysProcAttr) (figures, error) {
	// The kernel kills the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = env, os.Stderr, attr
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	all, err := readFigures(out)
	return all, errors.Join(err, cmd.Wait())
}

// enter finishes the namespaces from inside.
func enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback device: %w", err)
	}
	return netlink.LinkSetUp(lo)
}
