package store

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"github.com/statehive/statehive/internal/store/trie"
)

// testKeys returns keys of an entry: the secondary ones have a mark and then the primary one.
func testKeys(primary []byte, secondaries int) *entryKeys {
	keys := &entryKeys{primary: len(primary), count: secondaries}
	for i := range secondaries {
		keys.bytes = append(append(keys.bytes, 's', byte(i)), primary...)
		keys.ends[i] = len(keys.bytes)
	}
	if secondaries == 0 {
		keys.bytes = bytes.Clone(primary)
	}
	return keys
}

// wantKeys makes an entry of every length and number of keys.
func wantKeys[Row comparable](t *testing.T, rows RowType, row Row) {
	t.Helper()
	for secondaries := range 1 + MaxEmbedded {
		table := &Table{rows: rows, embedded: make([]int, secondaries)}
		for n := range 200 {
			key := bytes.Repeat([]byte{byte(n)}, n)
			keys := testKeys(key, secondaries)
			given := len(keys.bytes)
			e := rows.newEntry(unsafe.Pointer(&row), keys)
			clear(keys.bytes) // they are not kept
			if !bytes.Equal(e.Key(), key) || *(*Row)(e.Row()) != row || table.allocated(e) < given {
				t.Fatalf("a key of %d bytes reads as %q, of %d bytes in all; the row is %v", n, e.Key(), table.allocated(e), *(*Row)(e.Row()))
			}
			for i := range secondaries {
				leaf := e.leaf(rows.Size, i)
				if want := append([]byte{'s', byte(i)}, key...); !bytes.Equal(leaf.Key(), want) {
					t.Fatalf("secondary key %d of %d reads as %q, expected %q", i, secondaries, leaf.Key(), want)
				}
				if trie.Entry(unsafe.Pointer(leaf)) != unsafe.Pointer(e) {
					t.Fatalf("the leaf of secondary key %d of %d leads elsewhere", i, secondaries)
				}
			}
		}
	}
}

func TestAnEntryHasItsKeysWhateverTheirLengthAndNumber(t *testing.T) {
	t.Run("text", func(t *testing.T) { wantKeys(t, rowsByValue[string](), "row") })
	t.Run("pointer", func(t *testing.T) { wantKeys(t, rowsByPointer[*checked](), &checked{ID: "row"}) })
	t.Run("interface", func(t *testing.T) {
		wantKeys[fmt.Stringer](t, rowsByValue[fmt.Stringer](), bytes.NewBufferString("row"))
	})
	t.Run("nothing", func(t *testing.T) { wantKeys(t, rowsByValue[struct{}](), struct{}{}) })
	t.Run("odd size", func(t *testing.T) { wantKeys(t, rowsByValue[[13]byte](), [13]byte{12: 1}) })
	t.Run("structure", func(t *testing.T) { wantKeys(t, rowsByValue[checked](), checked{ID: "row", Number: 7}) })
}

// Keys of no bytes at all: those of an index whose only key is empty.
func TestAnEntryHasEmptySecondaryKeys(t *testing.T) {
	rows := rowsByPointer[*checked]()
	row := &checked{}
	for secondaries := 1; secondaries <= MaxEmbedded; secondaries++ {
		e := rows.newEntry(unsafe.Pointer(&row), &entryKeys{count: secondaries})
		for i := range secondaries {
			if key := e.leaf(rows.Size, i).Key(); len(key) > 0 || len(e.Key()) > 0 {
				t.Errorf("empty keys read as %q and %q", e.Key(), key)
			}
		}
	}
}

// Rows are by value up to MaxRow; secondary leaves lie in entries as far as a leaf
// can tell its distance.
const (
	largestRow     = MaxRow - RowOffset - 8
	largestWithAll = trie.MaxDistance - MaxEmbedded*unsafe.Sizeof(trie.SecondaryLeaf{}) - RowOffset
)

func TestOnlyHugeRowsAreTooLarge(t *testing.T) {
	if MaxRow < 1<<20 || MaxRow > 2<<20 {
		t.Errorf("rows of %d bytes can be kept: those of one megabyte should be possible, and those of two should not", MaxRow)
	}
	type large [largestRow]byte
	rows := rowsByValue[large]()
	for _, n := range []int{0, 1, 100, 1_000} {
		row := new(large)
		row[0], row[largestRow-1] = 1, 2
		key := bytes.Repeat([]byte{'k'}, n)
		e := rows.newEntry(unsafe.Pointer(row), testKeys(key, 0))
		if got := (*large)(e.Row()); !bytes.Equal(e.Key(), key) || *got != *row {
			t.Errorf("the largest row has the key %q, expected one of %d bytes", e.Key(), n)
		}
	}
}

func TestEntriesHaveSecondaryLeavesUnlessTheyAreLarge(t *testing.T) {
	type (
		fits    [largestWithAll]byte
		tooLong [largestWithAll + 1]byte
	)
	wantEmbedded(t, rowsByValue[fits](manyIndexes(func(fits) string { return "" })...), MaxEmbedded, 3)
	wantEmbedded(t, rowsByValue[tooLong](manyIndexes(func(tooLong) string { return "" })...), 0, MaxEmbedded+3)
	wantKeys(t, rowsByValue[fits](), fits{1, 2, 3})
}

// manyIndexes are a primary one and some more than can have leaves in an entry.
func manyIndexes[Row any](key func(Row) string) (indexes []*Index) {
	for i := range 1 + MaxEmbedded + 3 {
		indexes = append(indexes, testIndex(fmt.Sprint("index-", i), key))
	}
	return indexes
}

func wantEmbedded(t *testing.T, rows RowType, embedded, separate int) {
	t.Helper()
	table := newTable(New(), "rows", rows)
	if len(table.embedded) != embedded || len(table.separate) != separate {
		t.Errorf("%d indexes have leaves in entries of %d bytes, %d have not; expected %d and %d",
			len(table.embedded), rows.Size, len(table.separate), embedded, separate)
	}
}
