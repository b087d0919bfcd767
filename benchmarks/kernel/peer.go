package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// describeMachine is for the head of the table.
func describeMachine(ctx context.Context) string {
	version, err := exec.CommandContext(ctx, "ip", "-V").Output()
	if err != nil {
		version = []byte("no ip")
	}
	kernel := "an unknown kernel"
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		kernel = "Linux " + unix.ByteSliceToString(name.Release[:])
	}
	return fmt.Sprintf("%s, %s, %s, %d cores used", strings.TrimSpace(string(version)), kernel, runtime.Version(), runtime.GOMAXPROCS(0))
}

// ip lets ip -batch carry out lines, and returns how many seconds it took.
func (t *trial) ip(ctx context.Context, lines string) (float64, error) {
	path := filepath.Join(t.dir, "batch")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, "ip", "-batch", path)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began).Seconds()
	if err != nil {
		return 0, fmt.Errorf("ip -batch: %w: %.500s", err, out)
	}
	return took, nil
}

// batches measures the peer: it adds objects to a base, and removes them.
func (t *trial) batches(ctx context.Context, base, add, remove, added, removed string) error {
	if base != "" {
		if _, err := t.ip(ctx, base); err != nil {
			return err
		}
	}
	for _, step := range []struct{ figure, lines string }{{added, add}, {removed, remove}} {
		err := t.phase(ctx, step.figure, theirs, func(ctx context.Context) (float64, error) { return t.ip(ctx, step.lines) })
		if err != nil {
			return err
		}
	}
	return nil
}

func routesByIP(ctx context.Context, t *trial) error {
	all := routes(t.Routes)
	return t.batches(ctx, cableBatch, routeBatch(all, "add"), routeBatch(all, "del"), routesAdded, routesRemoved)
}
