package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
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
