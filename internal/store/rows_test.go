package store

import (
	"iter"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/statehive/statehive/statedb/index"
)

// keptRow is an entry with a row by value, and roomyRow one with room behind it.
type (
	keptRow[Row any] struct {
		e   Entry
		row Row
	}
	roomyRow[Row, Room any] struct {
		keptRow[Row]
		_ Room
	}
)

// newKeptRow is [RowType.New].
func newKeptRow[Row any](room int, row unsafe.Pointer) *Entry {
	makers := map[int]func() *keptRow[Row]{
		0:               func() *keptRow[Row] { return &new(roomyRow[Row, [8]byte]).keptRow },
		1:               func() *keptRow[Row] { return &new(roomyRow[Row, [16]byte]).keptRow },
		2:               func() *keptRow[Row] { return &new(roomyRow[Row, [24]byte]).keptRow },
		3:               func() *keptRow[Row] { return &new(roomyRow[Row, [32]byte]).keptRow },
		4:               func() *keptRow[Row] { return &new(roomyRow[Row, [48]byte]).keptRow },
		5:               func() *keptRow[Row] { return &new(roomyRow[Row, [64]byte]).keptRow },
		6:               func() *keptRow[Row] { return &new(roomyRow[Row, [96]byte]).keptRow },
		7:               func() *keptRow[Row] { return &new(roomyRow[Row, [128]byte]).keptRow },
		RoomExternal:    func() *keptRow[Row] { return &new(roomyRow[Row, ExternalKey]).keptRow },
		RoomExternalAll: func() *keptRow[Row] { return &new(roomyRow[Row, ExternalKeys]).keptRow },
	}
	kept := makers[room]()
	kept.row = *(*Row)(row)
	return &kept.e
}

// rowsByValue is the type of rows of a type that is not a pointer.
func rowsByValue[Row any](indexes ...*Index) RowType {
	return RowType{Type: reflect.TypeFor[Row](), Size: unsafe.Sizeof(keptRow[Row]{}), New: newKeptRow[Row], Indexes: indexes}
}

// rowsByPointer is the type of rows of a pointer type.
func rowsByPointer[Row any](indexes ...*Index) RowType {
	return RowType{Type: reflect.TypeFor[Row](), Size: unsafe.Sizeof(pointerEntry{}), New: newPointerEntry, Indexes: indexes}
}

// testIndex is an index with one key per row.
func testIndex[Row, Key any](name string, key func(Row) Key) *Index {
	codec, err := index.For[Key]()
	if err != nil {
		panic(err)
	}
	return testIndexOf(name, codec, key)
}

func testIndexOf[Row, Key any](name string, codec index.Codec[Key], key func(Row) Key) *Index {
	return &Index{
		Name: name, PrefixFree: codec.PrefixFree(),
		Append: func(buf []byte, row unsafe.Pointer) []byte { return codec.Append(buf, key(*(*Row)(row))) },
		Text:   func(row unsafe.Pointer, _ func([]byte) bool) string { return codec.Format(key(*(*Row)(row))) },
	}
}

// testMultiIndex is an index with any number of keys per row.
func testMultiIndex[Row any](name string, keys func(Row) iter.Seq[string]) *Index {
	codec, err := index.For[string]()
	if err != nil {
		panic(err)
	}
	return &Index{Name: name, Multi: true, PrefixFree: codec.PrefixFree(), Keys: func(row unsafe.Pointer, into *Keys) {
		for key := range keys(*(*Row)(row)) {
			into.Bytes = codec.Append(into.Bytes, key)
			into.Ends = append(into.Ends, len(into.Bytes))
		}
	}}
}

// checked is a row of a table with all that the check of invariants looks at.
type checked struct {
	ID, Group string
	Tags      string
	Number    int
	Network   netip.Prefix
}

func checkedRows() RowType {
	unique := testIndex("number", func(c checked) int { return c.Number })
	unique.Unique = true
	return rowsByValue[checked](
		testIndex("id", func(c checked) string { return c.ID }),
		testIndex("group", func(c checked) string { return c.Group }),
		testMultiIndex("tag", func(c checked) iter.Seq[string] { return slices.Values(strings.Fields(c.Tags)) }),
		unique,
		testIndexOf("network", index.Prefixes(), func(c checked) netip.Prefix { return c.Network }),
	)
}

func newTestTable(t *testing.T, rows RowType) *Table {
	t.Helper()
	table, err := NewTable(New(), "checked", rows)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// update commits what write does.
func update(t *testing.T, table *Table, write func(txn *WriteTxn)) {
	t.Helper()
	if err := table.db.Update(t.Context(), func(txn *WriteTxn) error { write(txn); return nil }, table); err != nil {
		t.Fatal(err)
	}
}

// inserting returns a write of rows.
func inserting[Row any](t *testing.T, table *Table, rows ...Row) func(*WriteTxn) {
	return func(txn *WriteTxn) {
		for _, row := range rows {
			if _, err := table.Insert(txn, unsafe.Pointer(&row)); err != nil {
				t.Error(err)
			}
		}
	}
}
