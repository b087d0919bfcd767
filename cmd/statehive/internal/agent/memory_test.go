package agent

import (
	"testing"

	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/target/ownership"
)

func TestThatRowsWereInForceIsRememberedForTheBootAndTheNamespace(t *testing.T) {
	dir := t.TempDir()
	open := func(boot string) file.Memory {
		store, err := ownership.Open(ownership.Config{Dir: dir, Identity: ownership.Identity{Boot: boot, Netns: "n"}})
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
	if m := open("1"); m.InForce() {
		t.Error("in force before anything was")
	}
	set(open("1"), false)
	set(open("1"), true)
	if !open("1").InForce() {
		t.Error("forgotten at a restart")
	}
	set(open("1"), false)
	if open("1").InForce() {
		t.Error("what was approved is remembered")
	}
	set(open("1"), true)
	if open("2").InForce() {
		t.Error("remembered in another boot")
	}
}
