package store

import (
	"reflect"
	"unsafe"
)

// RowType describes the type of a table's rows. It is made once for each table, and does not
// change.
//
// Its functions get pointers to rows, which they must not keep: some point into the
// caller's stack, which moves. They must not capture such a pointer either, or store it
// anywhere but in their own variables. See the package comment.
type RowType struct {
	Type reflect.Type
	// Size is the size of an entry up to the end of its row, in bytes.
	Size uintptr
	// New returns an entry with a copy of row and with room after it: room is an index in
	// Rooms, RoomExternal or RoomExternalAll. It need not be set for rows that are
	// pointers.
	New func(room int, row unsafe.Pointer) *Entry
	// Equal reports whether two rows with the same status are equal. Identical reports
	// whether two rows do not differ at all. Either may be nil.
	Equal, Identical func(a, b unsafe.Pointer) bool
	// Carry copies the row at to, with the status of the row at from, to where into points,
	// which may be one of the other two. Reset clears the status of a row. Both are nil if
	// rows have no status.
	Carry func(from, to, into unsafe.Pointer)
	Reset func(row unsafe.Pointer)
	// Apply sets into to the result of fn, a function of the user, for the row from. fn is
	// an interface so that passing it allocates nothing.
	Apply func(fn any, from, into unsafe.Pointer)
	// Default runs one of the Defaulters on a row. Validate runs one of the Validators on a
	// row that would replace old, which may be nil.
	Defaulters, Validators int
	Default                func(txn ReadTxn, i int, row unsafe.Pointer) error
	Validate               func(txn ReadTxn, i int, row, old unsafe.Pointer) error
	// Indexes are the indexes, the primary one first.
	Indexes []*Index
	// Columns are the names of the columns, and Cell returns the text of a row in one of
	// them. If Columns is nil there is a column for each exported field.
	Columns []string
	Cell    func(i int, row unsafe.Pointer) string
	// WritableByName allows the table to be written by name.
	WritableByName bool

	kind   kind
	fields [][]int // paths of the fields of the columns, if there is one for each exported field
}

// kind is the kind of a row type, which determines how its rows are handled.
type kind uint8

const (
	byValue kind = iota
	byPointer
	byInterface
)

func kindOf(t reflect.Type) kind {
	switch t.Kind() {
	case reflect.Pointer:
		return byPointer
	case reflect.Interface:
		return byInterface
	}
	return byValue
}

// value returns the row as a reflect.Value.
func (r *RowType) value(row unsafe.Pointer) reflect.Value { return reflect.NewAt(r.Type, row).Elem() }

// any returns a copy of the row.
func (r *RowType) any(row unsafe.Pointer) any { return r.value(row).Interface() }

// isNil reports whether the row is a nil pointer.
func (r *RowType) isNil(row unsafe.Pointer) bool {
	switch r.kind {
	case byPointer:
		return *(*unsafe.Pointer)(row) == nil
	case byInterface:
		v := r.value(row).Elem()
		return !v.IsValid() || isNilPointer(v)
	}
	return false
}

// sameObject reports whether two rows are pointers to the same object.
func (r *RowType) sameObject(a, b unsafe.Pointer) bool {
	switch r.kind {
	case byPointer:
		return *(*unsafe.Pointer)(a) == *(*unsafe.Pointer)(b)
	case byInterface:
		return r.value(a).Elem().Kind() == reflect.Pointer && r.any(a) == r.any(b)
	}
	return false
}

// Index is an index without the types of its rows and keys. It is identified by its
// address; a query made with a copy of it is matched by the name and the type of the keys.
type Index struct {
	Name   string
	Multi  bool // any number of keys per row
	Unique bool // no two rows of a committed table share a key
	Key    reflect.Type
	// PrefixFree reports whether no encoded key is a prefix of another.
	PrefixFree bool
	// Networks reports whether keys are address prefixes, as index.Prefixes encodes them.
	Networks bool
	// Append appends the key of a row. Nil if Multi.
	Append func(buf []byte, row unsafe.Pointer) []byte
	// Keys appends all keys of a row, if Multi.
	Keys func(row unsafe.Pointer, into *Keys)
	// Text returns the text of the first key of the row whose encoding matches.
	Text func(row unsafe.Pointer, matches func(encoded []byte) bool) string
	// Parse encodes the key with this text.
	Parse func(text string) ([]byte, error)
	// Err is why the index cannot be used, or nil.
	Err error
}

// NameOrNone returns the name of the index, or "" for nil.
func (ix *Index) NameOrNone() string {
	if ix == nil {
		return ""
	}
	return ix.Name
}

// AsUnique returns a copy of the index in which no two rows may share a key, or nil for
// nil.
func (ix *Index) AsUnique() *Index {
	if ix == nil {
		return nil
	}
	unique := *ix
	unique.Unique = true
	return &unique
}

// Keys holds encoded keys, concatenated.
type Keys struct {
	Bytes []byte
	Ends  []int
}

// of replaces the keys by the keys of a row in an index.
func (k *Keys) of(ix *Index, row unsafe.Pointer) {
	k.Bytes, k.Ends = k.Bytes[:0], k.Ends[:0]
	if ix.Multi {
		ix.Keys(row, k)
		return
	}
	k.Bytes = ix.Append(k.Bytes, row)
	k.Ends = append(k.Ends, len(k.Bytes))
}

// key returns the i-th key.
func (k *Keys) key(i int) []byte {
	begin := 0
	if i > 0 {
		begin = k.Ends[i-1]
	}
	return k.Bytes[begin:k.Ends[i]]
}

// shrink releases the memory if there is much of it.
func (k *Keys) shrink() {
	const muchBytes, manyKeys = 1 << 12, 1 << 9
	if cap(k.Bytes) > muchBytes || cap(k.Ends) > manyKeys {
		*k = Keys{}
	}
}

// has reports whether a key of the row has this encoding.
func (ix *Index) has(row unsafe.Pointer, encoded []byte) bool {
	var keys Keys
	keys.of(ix, row)
	for i := range keys.Ends {
		if string(keys.key(i)) == string(encoded) {
			return true
		}
	}
	return false
}

// text returns the text of the row's key, or of its first key.
func (ix *Index) text(row unsafe.Pointer) string {
	return ix.Text(row, func([]byte) bool { return true })
}

// Query is a key of an index.
type Query struct {
	Index *Index
	Key   []byte
}
