package statedb

import (
	"bytes"
	"testing"
)

func TestAnEntryHasItsKeyWhateverItsLength(t *testing.T) {
	for n := range 200 {
		key := bytes.Repeat([]byte{byte(n)}, n)
		e := newEntry[string](bytes.Clone(key))
		e.obj = "row"
		if !bytes.Equal(e.Key(), key) || e.obj != "row" || e.allocated() < n {
			t.Errorf("a key of %d bytes reads as %q, of %d bytes in all", n, e.Key(), e.allocated())
		}
	}
}

func TestOnlyHugeRowsAreTooLarge(t *testing.T) {
	if tooLarge[[1 << 20]byte]() || !tooLarge[[2 << 20]byte]() {
		t.Error("rows of one megabyte should be possible, those of two should not")
	}
}
