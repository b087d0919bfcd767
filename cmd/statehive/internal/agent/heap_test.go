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
	check := func(what string, obtained, allocated uint64, want int) {
		t.Helper()
		u = heapUsage{obtained: obtained, allocated: u.allocated + allocated}
		before := released
		if err := k.check(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if got := released - before; got != want {
			t.Errorf("%s: %d releases, want %d", what, got, want)
		}
	}
	check("a small heap", 20*mega, 5*mega, 0)
	check("while documents are read", 300*mega, 900*mega, 0)
	k.release = func() { released++; u.obtained = 100 * mega }
	check("when they were read", 300*mega, 1*mega, 1)
	check("with a little garbage", 150*mega, 1*mega, 0)
	check("with much garbage", 160*mega, 1*mega, 1)
	k.release = func() { released++; u.obtained = 10 * mega }
	check("when rows are gone", 170*mega, 1*mega, 1)
	check("and what they took has come back", 50*mega, 1*mega, 1)
}

var garbage []byte

func TestTheHeapShrinks(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	garbage = make([]byte, 200*mega)
	before := readHeap()
	garbage = nil
	k := &heapKeeper{usage: readHeap, release: debug.FreeOSMemory, allocated: before.allocated}
	if err := k.check(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if after := readHeap(); before.obtained < 200*mega || after.obtained > before.obtained-150*mega {
		t.Errorf("the heap had %d MB, and %d MB when 200 MB were not needed any more", before.obtained/mega, after.obtained/mega)
	}
}
