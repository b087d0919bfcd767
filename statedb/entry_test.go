package statedb

import (
	"bytes"
	"testing"
)

// testKeys returns keys of an entry: the secondary ones have a mark and then the primary one.
func testKeys(primary []byte, secondaries int) *entryKeys {
	keys := &entryKeys{primary: len(primary), count: secondaries}
	for i := range secondaries {
		keys.bytes = append(append(keys.bytes, 's', byte(i)), primary...)
		keys.ends[i] = len(keys.bytes)
	}
	if secondaries == 0 {
		keys.bytes = primary
	}
	return keys
}

func TestAnEntryHasItsKeysWhateverTheirLengthAndNumber(t *testing.T) {
	for secondaries := range 1 + maxShared {
		for n := range 200 {
			key := bytes.Repeat([]byte{byte(n)}, n)
			keys := testKeys(key, secondaries)
			given := bytes.Clone(keys.bytes)
			e := newEntry[string](keys)
			clear(keys.bytes) // they are not kept
			e.obj = "row"
			if !bytes.Equal(e.Key(), bytes.Repeat([]byte{byte(n)}, n)) || e.obj != "row" || e.allocated(secondaries) < len(given) {
				t.Fatalf("a key of %d bytes reads as %q, of %d bytes in all", n, e.Key(), e.allocated(secondaries))
			}
			for i := range secondaries {
				if want := append([]byte{'s', byte(i)}, e.Key()...); !bytes.Equal(e.head(i).Key(), want) {
					t.Fatalf("secondary key %d of %d reads as %q, expected %q", i, secondaries, e.head(i).Key(), want)
				}
			}
		}
	}
}

func TestOnlyHugeRowsAreTooLarge(t *testing.T) {
	if tooLarge[[1 << 20]byte]() || !tooLarge[[2 << 20]byte]() {
		t.Error("rows of one megabyte should be possible, those of two should not")
	}
	if mostShared[[1 << 10]byte]() == 0 || mostShared[[2 << 10]byte]() != 0 {
		t.Error("entries of one kilobyte should be their own leaves, those of two should not")
	}
}
