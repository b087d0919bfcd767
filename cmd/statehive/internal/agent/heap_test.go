package agent

import (
	"runtime/debug"
	"testing"
)

const mega = 1 << 20

func TestMemoryIsReturnedWhenNothingGoesOn(t *testing.T) {
	u := heapUsage{}
	released := 0
	k := &heapKeeper{usage: func() heapUsage { return u }, release: func() { released++ }}
	look := func(what string, held, allocated uint64, want int) {
		t.Helper()
		u = heapUsage{held: held, allocated: u.allocated + allocated}
		before := released
		if err := k.look(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if got := released - before; got != want {
			t.Errorf("%s: %d releases, want %d", what, got, want)
		}
	}
	look("a small heap", 20*mega, 5*mega, 0)
	look("while documents are read", 300*mega, 900*mega, 0)
	k.release = func() { released++; u.held = 100 * mega }
	look("when they were read", 300*mega, 1*mega, 1)
	look("with a little garbage", 150*mega, 1*mega, 0)
	look("with much garbage", 160*mega, 1*mega, 1)
	k.release = func() { released++; u.held = 10 * mega }
	look("when rows are gone", 170*mega, 1*mega, 1)
	look("and what they took has come back", 50*mega, 1*mega, 1)
}

var garbage []byte

func TestTheHeapShrinks(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	garbage = make([]byte, 200*mega)
	before := readHeap()
	garbage = nil
	k := &heapKeeper{usage: readHeap, release: debug.FreeOSMemory, allocated: before.allocated}
	if err := k.look(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if after := readHeap(); before.held < 200*mega || after.held > before.held-150*mega {
		t.Errorf("the heap held %d MB, and %d MB when 200 MB were not needed any more", before.held/mega, after.held/mega)
	}
}
