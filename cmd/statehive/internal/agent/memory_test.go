package agent

import (
	"testing"

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
