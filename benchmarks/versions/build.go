package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// kinds are how a table can hold its rows.
var kinds = []string{"value", "pointer"}

// built is this command built with both trees, in a temporary directory.
type built struct {
	dir      string
	worktree string
	versions [2]string // how git names them: the base and this tree
}

// build checks the base out and builds all programs. It has to be called in the
// module that this package belongs to.
func build(ctx context.Context, base string) (*built, error) {
	dir, err := os.MkdirTemp("", "versions-")
	if err != nil {
		return nil, err
	}
	b := &built{dir: dir, worktree: filepath.Join(dir, "base")}
	if err := b.build(ctx, base); err != nil {
		_ = b.remove(ctx) // the first error says more
		return nil, err
	}
	return b, nil
}

func (b *built) build(ctx context.Context, base string) (err error) {
	for i, args := range [][]string{{"rev-parse", "--short", base + "^{commit}"}, {"describe", "--always", "--dirty"}} {
		if b.versions[i], err = output(ctx, ".", "git", args...); err != nil {
			return err
		}
	}
	if _, err := output(ctx, ".", "git", "worktree", "add", "--detach", b.worktree, base); err != nil {
		return err
	}
	modules := [2]string{filepath.Join(b.worktree, "benchmarks"), "."}
	if err := copySource(filepath.Join(modules[0], "versions")); err != nil {
		return err
	}
	for version, module := range modules {
		for _, kind := range kinds {
			tags := kind + "," + tableTag(module)
			if _, err := output(ctx, module, "go", "build", "-trimpath", "-tags", tags, "-o", b.program(version, kind), "./versions"); err != nil {
				return err
			}
		}
	}
	return nil
}

// tableTag is the build tag for a commit whose tables are interfaces, or empty.
func tableTag(module string) string {
	if _, err := os.Stat(filepath.Join(module, "..", "statedb", "rwtable.go")); err != nil {
		return "interfaces"
	}
	return ""
}

// copySource has the base measured by what measures this tree.
func copySource(to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS("versions"))
}

func (b *built) program(version int, kind string) string {
	return filepath.Join(b.dir, fmt.Sprintf("%d-%s", version, kind))
}

// measure has one program measure once.
func (b *built) measure(ctx context.Context, version int, kind, name string, benchtime time.Duration) (sample, error) {
	text, err := output(ctx, ".", b.program(version, kind), "-measure", name, "-benchtime", benchtime.String())
	if err != nil {
		return sample{}, err
	}
	return readSample(text)
}

// remove leaves nothing behind, also when ctx has ended.
func (b *built) remove(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	_, err := output(ctx, ".", "git", "worktree", "remove", "--force", b.worktree)
	if removed := os.RemoveAll(b.dir); err == nil {
		err = removed
	}
	return err
}

// output runs a command in a directory and returns what it writes.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
