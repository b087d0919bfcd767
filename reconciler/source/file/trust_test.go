package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statehive/statehive/statedb"
)

// stranger is a user whom nobody has to trust.
const stranger = 65533

func TestDocumentsThatOthersMayHaveWrittenAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil, mend func(h *harness) error
		want        string
	}{
		"a file of others": {
			func(h *harness) error { return os.Chown(h.path("b.yaml"), stranger, stranger) },
			func(h *harness) error { return os.Chown(h.path("b.yaml"), 0, 0) },
			"b.yaml belongs to uid 65533, who may write to it: if what it holds is right, run chown root",
		},
		"a file that others may write": {
			func(h *harness) error { return os.Chmod(h.path("b.yaml"), 0o666) },
			func(h *harness) error { return os.Chmod(h.path("b.yaml"), 0o600) },
			"b.yaml can be written to by others (mode -rw-rw-rw-): if what it holds is right, run chmod go-w",
		},
		"a link out": {
			func(h *harness) error {
				return errorsOf(os.Remove(h.path("b.yaml")), os.Symlink("/etc/passwd", h.path("b.yaml")))
			},
			func(h *harness) error {
				return errorsOf(os.Remove(h.path("b.yaml")), os.WriteFile(h.path("b.yaml"), []byte(routeTo(netB, "b")), 0o600))
			},
			"a symbolic link leads out of",
		},
		"a file of the kernel": {
			func(h *harness) error {
				return errorsOf(os.Remove(h.path("b.yaml")), os.Symlink("/proc/kmsg", h.path("b.yaml")))
			},
			func(h *harness) error {
				return errorsOf(os.Remove(h.path("b.yaml")), os.WriteFile(h.path("b.yaml"), []byte(routeTo(netB, "b")), 0o600))
			},
			"a file of the kernel: not a regular file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getuid() != 0 && strings.Contains(c.want, "uid") {
				t.Skip("only root can give files to others")
			}
			dir := t.TempDir()
			h := &harness{t: t, dir: dir}
			h.write("a.yaml", routeTo(netA, "a"))
			h.write("b.yaml", routeTo(netB, "b"))
			h.must(c.spoil(h))
			r := running(t, dir, nil)
			r.told(h.path("b.yaml"), c.want)
			r.become(netA + " a")
			r.must(c.mend(h))
			r.become(netA+" a", netB+" b")
		})
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestADirectoryThatOthersCanChangeIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "conf")
	if err := errorsOf(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o770)); err != nil {
		t.Fatal(err)
	}
	_, err := New(Config{DB: statedb.New(), Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "conf can be written to by others (mode drwxrwx---): if what it holds is right, run chmod go-w") {
		t.Errorf("New: %v", err)
	}
	if _, err := New(Config{DB: statedb.New(), Dir: dir, AllowWritable: true}); err != nil {
		t.Errorf("New, although it is allowed: %v", err)
	}
}
