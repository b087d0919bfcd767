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
	set := func(m file.Memory, now bool) {
		if err := m.SetInForce(now); err != nil {
			t.Fatal(err)
		}
	}
	if m := open("1", "n"); m.InForce() {
		t.Error("in force before anything was")
	}
	set(open("1", "n"), false)
	set(open("1", "n"), true)
	if !open("1", "n").InForce() {
		t.Error("forgotten at a restart")
	}
	set(open("1", "n"), false)
	if open("1", "n").InForce() {
		t.Error("what was approved is remembered")
	}
	set(open("1", "n"), true)
	// Files outlive the boot, and so does what is known of them.
	if !open("2", "n").InForce() {
		t.Error("forgotten in another boot")
	}
	if !open("2", "other").InForce() {
		t.Error("forgotten in another namespace")
	}
	set(open("3", "n"), false)
	if open("1", "n").InForce() {
		t.Error("what was approved in another boot is remembered")
	}
}
