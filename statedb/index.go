package statedb

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"unsafe"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/statedb/index"
)

// Index is a typed index of a table: it defines how keys of type Key are taken from rows.
// The type of the keys determines their order (see package index). It is immutable and safe
// for concurrent use.
//
// Its key function is called whenever the table needs the keys of a row, even if the row
// was replaced long ago. It must depend on nothing but the row, and must not use any table.
type Index[Obj, Key any] struct{ keys *keyed[Key] }

// NewIndex declares an index with exactly one key per row, which key returns.
// A key type that cannot be encoded is reported by [NewTable].
func NewIndex[Obj, Key any](name string, key func(Obj) Key) Index[Obj, Key] {
	return oneKey(keysOf[Key](name, key == nil), key)
}

// oneKey completes an index with one key per row.
//
//go:noinline
func oneKey[Obj, Key any](k *keyed[Key], key func(Obj) Key) Index[Obj, Key] {
	k.index.Append = func(buf []byte, row unsafe.Pointer) []byte { return k.codec.Append(buf, key(object[Obj](row))) }
	k.index.Text = func(row unsafe.Pointer, matches func([]byte) bool) string {
		return k.text(key(object[Obj](row)), matches)
	}
	return Index[Obj, Key]{k}
}

// NewMultiIndex declares an index with any number of keys per row. A row without keys, for
// which keys may return nil, is not in the index and takes no memory there. A key that is
// yielded twice counts once. The index cannot be a primary index.
func NewMultiIndex[Obj, Key any](name string, keys func(Obj) iter.Seq[Key]) Index[Obj, Key] {
	return manyKeys(keysOf[Key](name, keys == nil), keys)
}

// manyKeys completes an index with any number of keys per row.
//
//go:noinline
func manyKeys[Obj, Key any](k *keyed[Key], keys func(Obj) iter.Seq[Key]) Index[Obj, Key] {
	k.index.Multi = true
	k.index.Keys = func(row unsafe.Pointer, into *store.Keys) { k.append(keys(object[Obj](row)), into) }
	k.index.Text = func(row unsafe.Pointer, matches func([]byte) bool) string {
		return k.firstText(keys(object[Obj](row)), matches)
	}
	return Index[Obj, Key]{k}
}

// keyed is an index without the type of its rows, so that its code is compiled only once for
// each type of keys.
type keyed[Key any] struct {
	index *store.Index
	codec index.Codec[Key]
}

// keysOf returns an index without the functions that take keys from rows.
func keysOf[Key any](name string, noFunction bool) *keyed[Key] {
	codec, err := index.For[Key]()
	return keysWith(name, codec, err, noFunction)
}

func keysWith[Key any](name string, codec index.Codec[Key], err error, noFunction bool) *keyed[Key] {
	k := &keyed[Key]{codec: codec}
	k.index = &store.Index{
		Name: name, Key: reflect.TypeFor[Key](), PrefixFree: codec.PrefixFree(), Parse: k.parse, Err: problem(name, err, noFunction),
	}
	return k
}

func (k *keyed[Key]) parse(text string) ([]byte, error) {
	key, err := k.codec.Parse(text)
	if err != nil {
		return nil, err
	}
	return k.codec.Encode(key), nil
}

// problem returns why an index cannot be used, or nil.
func problem(name string, err error, noFunction bool) error {
	switch {
	case name == "":
		return errors.New("an index has no name")
	case noFunction:
		return fmt.Errorf("index %q has no key function: declare it with NewIndex or NewMultiIndex", name)
	case err != nil:
		return fmt.Errorf("index %q: %w", name, err)
	}
	return nil
}

func (k *keyed[Key]) text(key Key, matches func([]byte) bool) string {
	if !matches(k.codec.Encode(key)) {
		return ""
	}
	return k.codec.Format(key)
}

func (k *keyed[Key]) append(keys iter.Seq[Key], into *store.Keys) {
	if keys == nil {
		return
	}
	for key := range keys {
		into.Bytes = k.codec.Append(into.Bytes, key)
		into.Ends = append(into.Ends, len(into.Bytes))
	}
}

func (k *keyed[Key]) firstText(keys iter.Seq[Key], matches func([]byte) bool) string {
	if keys == nil {
		return ""
	}
	for key := range keys {
		if matches(k.codec.Encode(key)) {
			return k.codec.Format(key)
		}
	}
	return ""
}

// unique returns a unique copy of the index. Like query it is not inlined, so that it is
// compiled once for each type of keys.
//
//go:noinline
func (k *keyed[Key]) unique() *keyed[Key] {
	if k == nil {
		return nil
	}
	return &keyed[Key]{index: k.index.AsUnique(), codec: k.codec}
}

func (k *keyed[Key]) query(key Key) store.Query {
	if k == nil {
		return store.Query{}
	}
	return store.Query{Index: k.index, Key: k.codec.Encode(key)}
}

// untyped returns the index without its types, or nil if it was not declared.
func (k *keyed[Key]) untyped() *store.Index {
	if k == nil {
		return nil
	}
	return k.index
}

// Unique returns a copy of the index in which no two rows may share a key. This is checked
// when a transaction commits, so rows may swap their keys inside a transaction; until then
// several rows can have the same key. See [UniqueError].
func (i Index[Obj, Key]) Unique() Index[Obj, Key] { return Index[Obj, Key]{i.keys.unique()} }

// Query returns the query for the rows that have key in this index.
func (i Index[Obj, Key]) Query(key Key) Query[Obj] { return Query[Obj]{i.keys.query(key)} }

// Name returns the name of the index.
func (i Index[Obj, Key]) Name() string { return i.keys.untyped().NameOrNone() }

func (i Index[Obj, Key]) of(*Obj) *store.Index { return i.keys.untyped() }

// Indexer is an [Index] with any type of keys, as a schema lists them. Only Index and
// PrefixIndex implement it.
type Indexer[Obj any] interface {
	// of returns the index without its types. Its argument, which is nil, ties the index
	// to the type of its rows.
	of(*Obj) *store.Index
}

// Query is a key of one index, made by [Index.Query]. The method of the table that it is
// passed to decides its meaning: equality, prefix or lower bound. It may refer to the memory
// of a string: if the query is kept, clone a key that is a small part of a large string.
type Query[Obj any] struct{ q store.Query }

// Encoded returns the encoded key of the query as a string. Encoded keys are equal if the
// keys are equal, and ordered as the keys are. They can be used as map keys.
func (q Query[Obj]) Encoded() string { return string(q.q.Key) }

// Index returns the name of the query's index.
func (q Query[Obj]) Index() string { return q.q.Index.NameOrNone() }

// Untyped returns the query without the type of its rows, for packages of this module.
func (q Query[Obj]) Untyped() store.Query { return q.q }
