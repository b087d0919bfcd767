package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheDirectoryFollowsTheTable(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "notes")
	if err := os.MkdirAll(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "stale"), []byte("from an earlier run"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- run(ctx, dir(directory), Note{Name: "hello", Text: "Hello!\n"}) }()
		synctest.Wait() // until the reconciler has nothing more to do
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
	files, err := os.ReadDir(directory)
	if err != nil || len(files) != 1 || files[0].Name() != "hello" {
		t.Fatalf("the directory has %v (%v), want hello alone", files, err)
	}
	text, err := os.ReadFile(filepath.Join(directory, "hello"))
	if err != nil || string(text) != "Hello!\n" {
		t.Fatalf("hello is %q (%v)", text, err)
	}
}

func TestTheTargetKeepsTheContract(t *testing.T) {
	directory := dir(filepath.Join(t.TempDir(), "notes"))
	targettest.Run(t, targettest.Contract[Note]{
		Open:     func(*testing.T) reconciler.Target[Note] { return directory },
		Key:      func(n Note) string { return n.Name },
		Rows:     []Note{{Name: "a", Text: "one"}, {Name: "b", Text: "two"}, {Name: "empty"}},
		Variants: []Note{{Name: "a", Text: "three"}, {Name: "b"}},
		Invalid:  []Note{{}, {Name: "."}, {Name: ".."}, {Name: "/"}, {Name: "../notes/a"}, {Name: "a/b"}},
		Holds: func(_ *testing.T, n Note) bool {
			text, err := os.ReadFile(directory.path(n.Name))
			return err == nil && string(text) == n.Text
		},
		Remove: func(t *testing.T, n Note) {
			if err := os.RemoveAll(directory.path(n.Name)); err != nil {
				t.Fatal(err)
			}
		},
		Disturb: func(t *testing.T, n Note) {
			if err := os.WriteFile(directory.path(n.Name), []byte("disturbed"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	})
}
