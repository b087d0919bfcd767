package symlink

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/reconciler/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheTargetKeepsTheContract(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	targettest.Run(t, targettest.Contract[Symlink]{
		Open: func(t *testing.T) reconciler.Target[Symlink] {
			t.Helper()
			store, err := ownership.Open(ownership.Config{Dir: state})
			if err != nil {
				t.Fatal(err)
			}
			made, err := newTarget(store)
			if err != nil {
				t.Fatal(err)
			}
			return made
		},
		Key:      func(s Symlink) string { return s.Path },
		Rows:     []Symlink{{Path: in("a"), To: "/etc"}, {Path: in("b"), To: "nowhere"}},
		Variants: []Symlink{{Path: in("a"), To: "/usr"}},
		Invalid:  []Symlink{{Path: "a", To: "/etc"}, {Path: in("a")}},
		Holds: func(t *testing.T, s Symlink) bool {
			t.Helper()
			to, err := os.Readlink(s.Path)
			return err == nil && to == s.To
		},
		Remove: func(t *testing.T, s Symlink) {
			t.Helper()
			if err := os.RemoveAll(s.Path); err != nil {
				t.Fatal(err)
			}
		},
		Disturb: func(t *testing.T, s Symlink) {
			t.Helper()
			link(t, "/elsewhere", s.Path)
		},
		Foreign: func(t *testing.T) func() bool {
			t.Helper()
			link(t, "/etc", in("theirs"))
			return func() bool {
				to, err := os.Readlink(in("theirs"))
				return err == nil && to == "/etc"
			}
		},
	})
}

func TestWhatOthersMadeIsLeftAlone(t *testing.T) {
	store, err := ownership.Open(ownership.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	made, err := newTarget(store)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "theirs")
	link(t, "/etc", path)
	if _, err := made.Update(t.Context(), nil, Symlink{Path: path, To: "/usr"}); err == nil {
		t.Error("somebody else's link was taken over")
	}
	if err := made.Delete(t.Context(), nil, Symlink{Path: path}); err != nil {
		t.Error(err)
	}
	if to, err := os.Readlink(path); to != "/etc" {
		t.Errorf("the link leads to %q (%v)", to, err)
	}
}

// link makes a link in place of what is there.
func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}
