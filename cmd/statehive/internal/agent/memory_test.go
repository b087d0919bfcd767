package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/target/ownership"
)

func TestThatRowsWereInForceIsRememberedAcrossBootsAndNamespaces(t *testing.T) {
	dir := t.TempDir()
	open := func(boot, netns string) file.Memory {
		store, err := ownership.Open(ownership.Config{Dir: dir, Identity: ownership.Identity{Boot: boot, Netns: netns}})
		if err != nil {
			t.Fatal(err)
		}
		memory, err := newMemory(store)
		if err != nil {
			t.Fatal(err)
		}
		return memory
	}
	set := func(m file.Memory, files int) {
		if err := m.SetInForce(file.InForce{Files: files}); err != nil {
			t.Fatal(err)
		}
	}
	if m := open("1", "n"); m.InForce().Files > 0 {
		t.Error("in force before anything was")
	}
	set(open("1", "n"), 0)
	set(open("1", "n"), 2)
	if open("1", "n").InForce().Files != 2 {
		t.Error("forgotten at a restart")
	}
	set(open("1", "n"), 0)
	if open("1", "n").InForce().Files > 0 {
		t.Error("what was approved is remembered")
	}
	set(open("1", "n"), 2)
	// Files outlive the boot, and so does what is known of them.
	if open("2", "n").InForce().Files != 2 {
		t.Error("forgotten in another boot")
	}
	if open("2", "other").InForce().Files != 2 {
		t.Error("forgotten in another namespace")
	}
	set(open("3", "n"), 0)
	if open("1", "n").InForce().Files > 0 {
		t.Error("what was approved in another boot is remembered")
	}
}

// That there is a record says enough to be careful, even if what it says is lost.
func TestDamagedMemoryIsCareful(t *testing.T) {
	dir := t.TempDir()
	open := func() (file.Memory, reconciler.Memory) {
		store, err := ownership.Open(ownership.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler), Identity: ownership.Identity{Boot: "1", Netns: "n"}})
		documents, errDocuments := newMemory(store)
		if err := errors.Join(err, errDocuments); err != nil {
			t.Fatal(err)
		}
		return documents, openHeldDeletes(t, store)("routes")
	}
	documents, deletes := open()
	if held := deletes.DeletesHeld(); held == nil || held.Allowed != 0 {
		t.Errorf("held deletes: %v, want that some are held, because the directory is new", held)
	}
	if _, deletes = open(); deletes.DeletesHeld() == nil {
		t.Error("it was forgotten that the directory is new before anything was looked for")
	}
	if err := deletes.SetDeletesHeld(nil); err != nil {
		t.Fatal(err)
	}
	if _, deletes = open(); deletes.DeletesHeld() != nil {
		t.Error("deletes are held for ever")
	}
	if err := errors.Join(documents.SetInForce(file.InForce{Files: 3}), deletes.SetDeletesHeld(&reconciler.HeldDeletes{Allowed: 5})); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"documents", "held-deletes"} {
		files, err := filepath.Glob(filepath.Join(dir, kind, "*.json"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := os.Truncate(files[0], 10); err != nil {
			t.Fatal(err)
		}
	}
	documents, deletes = open()
	if held := deletes.DeletesHeld(); held == nil || held.Allowed != 0 {
		t.Errorf("held deletes: %v, want that some are held, and none is allowed", held)
	}
	if now := documents.InForce(); now.Files == 0 {
		t.Error("it was forgotten that documents were in force")
	}
	if documents, _ = open(); documents.InForce().Files == 0 {
		t.Error("it was forgotten that documents were in force, at the second start")
	}
}

// noHooks is a lifecycle whose hooks do not run.
type noHooks struct{}

func (noHooks) Append(cell.Hook) {}

func openHeldDeletes(t *testing.T, store *ownership.Store) reconcilercell.Memory {
	t.Helper()
	started, err := newStartedRecords(store)
	if err != nil {
		t.Fatal(err)
	}
	deletes, err := newHeldDeletes(store, started, noHooks{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return deletes
}

// It does not matter when a start with a copy of the state directory ends: all reconcilers hold deletes until each has been started with it.
func TestACopyOfTheStateDirectoryHoldsDeletesAlsoAfterAKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	open := func() reconcilercell.Memory {
		store, err := ownership.Open(ownership.Config{Dir: dir, Identity: ownership.Identity{Boot: "1", Netns: "n"}})
		if err != nil {
			t.Fatal(err)
		}
		return openHeldDeletes(t, store)
	}
	names := []string{"files", "links", "routes"}
	deletes := open()
	for _, name := range names {
		if err := deletes(name).SetDeletesHeld(nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.CopyFS(dir+"2", os.DirFS(dir)), os.RemoveAll(dir), os.Rename(dir+"2", dir)); err != nil {
		t.Fatal(err)
	}
	for started := range names { // killed when so many have been started
		deletes = open()
		for _, name := range names[:started] {
			if deletes(name).DeletesHeld() == nil {
				t.Errorf("%s: deletes are not held", name)
			}
		}
	}
	deletes = open()
	for _, name := range names {
		if deletes(name).DeletesHeld() == nil {
			t.Errorf("%s: deletes are not held after the kills", name)
		}
	}
	for _, name := range names {
		if err := deletes(name).SetDeletesHeld(nil); err != nil {
			t.Fatal(err)
		}
	}
	deletes = open()
	for _, name := range names {
		if deletes(name).DeletesHeld() != nil {
			t.Errorf("%s: deletes are held for ever", name)
		}
	}
}
