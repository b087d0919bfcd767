package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever lies in the place of the lock of the state directory, nothing is made or opened through it.
func TestAPlantedLockIsRefused(t *testing.T) {
	for name, plant := range map[string]func(lock, elsewhere string) error{
		"a link to nothing": func(lock, elsewhere string) error { return os.Symlink(elsewhere, lock) },
		"a link to a file": func(lock, elsewhere string) error {
			return errors.Join(os.Symlink(elsewhere+"-2", lock), os.WriteFile(elsewhere+"-2", nil, 0o600))
		},
		"a pipe":      func(lock, _ string) error { return unix.Mkfifo(lock, 0o600) },
		"a directory": func(lock, _ string) error { return os.Mkdir(lock, 0o700) },
		"for all": func(lock, _ string) error {
			return errors.Join(os.WriteFile(lock, nil, 0o600), os.Chmod(lock, 0o666)) //nolint:gosec // that is the point
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "made")
			if err := plant(filepath.Join(dir, "lock"), elsewhere); err != nil {
				t.Fatal(err)
			}
			if lock, err := lockDir(dir, slog.New(slog.DiscardHandler)); err == nil {
				t.Error("it is locked", lock.Close())
			}
			if _, err := os.Lstat(elsewhere); err == nil {
				t.Error("a file was made through the link")
			}
		})
	}
}
