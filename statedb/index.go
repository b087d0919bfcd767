package statedb

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"github.com/statehive/statehive/statedb/index"
)

// Index is a typed index of a table: how keys of type Key are taken from rows.
// The key's type decides the order (see package index). It is immutable and
// safe for concurrent use.
//
// Its key function is called whenever the table needs the keys of a row, also of one
// that was replaced long ago. It depends on nothing but the row, and uses no table.
type Index[Obj, Key any] struct {
	unique bool // no two rows of a committed table share a key

	name  string
	keys  func(Obj, func(Key) bool)
	key   func(Obj) Key // of an index with one key for each row; else nil
	multi bool
	codec index.Codec[Key]
	err   error
	// networks: the keys are those of a PrefixIndex.
	networks bool
}

// NewIndex declares an index with exactly one key per row, which key returns.
// A key type that cannot be encoded is reported by [NewTable].
func NewIndex[Obj, Key any](name string, key func(Obj) Key) Index[Obj, Key] {
	ix := newIndex[Obj, Key](name)
	if key != nil {
		ix.key = key
		ix.keys = func(obj Obj, yield func(Key) bool) { yield(key(obj)) }
	}
	return ix
}

func newIndex[Obj, Key any](name string) Index[Obj, Key] {
	codec, err := index.For[Key]()
	return Index[Obj, Key]{name: name, codec: codec, err: err}
}

// NewMultiIndex declares an index with any number of keys per row. A row
// without keys is not in the index, which then costs it nothing; a key that is
// yielded twice counts once. It cannot be a primary index.
func NewMultiIndex[Obj, Key any](name string, keys func(Obj) iter.Seq[Key]) Index[Obj, Key] {
	ix := newIndex[Obj, Key](name)
	ix.multi = true
	if keys != nil {
		ix.keys = func(obj Obj, yield func(Key) bool) {
			if seq := keys(obj); seq != nil {
				seq(yield)
			}
		}
	}
	return ix
}

// Unique returns the index as one in which no two rows may share a key. That is
// checked when a transaction commits, so rows may swap their keys inside of one;
// until then several rows can have a key. See [UniqueError].
func (i Index[Obj, Key]) Unique() Index[Obj, Key] {
	i.unique = true
	return i
}

// Query asks a table for the rows that have key in this index.
func (i Index[Obj, Key]) Query(key Key) Query[Obj] {
	return Query[Obj]{index: i.name, key: i.codec.Encode(key)}
}

// Name returns the name of the index.
func (i Index[Obj, Key]) Name() string { return i.name }

// Query is a key of one index, made by [Index.Query]. What the table does with
// it depends on the method: equality, prefix or lower bound. It refers to the memory of a
// text: clone one that is a small part of something large, if the query stays.
type Query[Obj any] struct {
	index string
	key   []byte
}

// Indexer is an [Index] with its key type out of sight, as a schema lists them.
// Only Index and PrefixIndex implement it.
type Indexer[Obj any] interface {
	Name() string
	check() error
	isMulti() bool
	isUnique() bool
	ofNetworks() bool
	prefixFree() bool
	encoder() keyEncoder[Obj]
	// appendKey appends the key of the row, of an index with one for each row.
	appendKey(buf []byte, obj Obj) []byte
	// has says whether a key of the row has this encoding.
	has(obj Obj, encoded []byte) bool
	format(obj Obj) string
	// formatKey returns the text of the first key whose encoding matches.
	formatKey(obj Obj, matches func([]byte) bool) string
	parse(text string) (Query[Obj], error)
}

func (i Index[Obj, Key]) check() error {
	switch {
	case i.name == "":
		return errors.New("an index has no name")
	case i.keys == nil:
		return fmt.Errorf("index %q has no key function: declare it with NewIndex or NewMultiIndex", i.name)
	case i.err != nil:
		return fmt.Errorf("index %q: %w", i.name, i.err)
	}
	return nil
}

func (i Index[Obj, Key]) isMulti() bool { return i.multi }

func (i Index[Obj, Key]) isUnique() bool { return i.unique }

func (i Index[Obj, Key]) ofNetworks() bool { return i.networks }

func (i Index[Obj, Key]) prefixFree() bool { return i.codec.PrefixFree() }

// keyEncoder puts all keys of a row in an index into keys, in place of what was
// there. It belongs to one goroutine at a time.
type keyEncoder[Obj any] func(obj Obj, keys *rowKeys)

// rowKeys is encoded keys, one behind another.
type rowKeys struct {
	bytes []byte
	ends  []int
}

func (k *rowKeys) all() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		begin := 0
		for _, end := range k.ends {
			if !yield(k.bytes[begin:end]) {
				return
			}
			begin = end
		}
	}
}

// shrink gives up much memory.
func (k *rowKeys) shrink() {
	const muchBytes, manyKeys = 1 << 12, 1 << 9
	if cap(k.bytes) > muchBytes || cap(k.ends) > manyKeys {
		*k = rowKeys{}
	}
}

func (i Index[Obj, Key]) encoder() keyEncoder[Obj] {
	var into *rowKeys
	add := func(key Key) bool { // made once, and not for each row
		into.bytes = i.codec.Append(into.bytes, key)
		into.ends = append(into.ends, len(into.bytes))
		return true
	}
	return func(obj Obj, keys *rowKeys) {
		keys.bytes, keys.ends = keys.bytes[:0], keys.ends[:0]
		into = keys
		i.keys(obj, add)
	}
}

func (i Index[Obj, Key]) appendKey(buf []byte, obj Obj) []byte {
	return i.codec.Append(buf, i.key(obj))
}

func (i Index[Obj, Key]) has(obj Obj, encoded []byte) (has bool) {
	i.keys(obj, func(key Key) bool {
		has = bytes.Equal(i.codec.Encode(key), encoded)
		return !has
	})
	return has
}

func (i Index[Obj, Key]) format(obj Obj) string {
	return i.formatKey(obj, func([]byte) bool { return true })
}

func (i Index[Obj, Key]) formatKey(obj Obj, matches func([]byte) bool) (text string) {
	i.keys(obj, func(key Key) bool {
		if !matches(i.codec.Encode(key)) {
			return true
		}
		text = i.codec.Format(key)
		return false
	})
	return text
}

func (i Index[Obj, Key]) parse(text string) (Query[Obj], error) {
	key, err := i.codec.Parse(text)
	if err != nil {
		return Query[Obj]{}, fmt.Errorf("%w for index %q: %w", ErrBadKey, i.name, err)
	}
	return i.Query(key), nil
}

// Encoded returns the bytes of the query's key as a string: equal for equal
// keys, ordered as the keys are. It serves as a key of maps.
func (q Query[Obj]) Encoded() string { return string(q.key) }

// Index returns the name of the index that is asked.
func (q Query[Obj]) Index() string { return q.index }
