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
// Its key function is called whenever the table needs the keys of a row, including one that
// was replaced long ago. It must depend on nothing but the row, and must not use any table.
type Index[Obj, Key any] struct {
	core  *store.Index
	codec index.Codec[Key]
	err   error // why it is invalid
}

// NewIndex declares an index with exactly one key per row, which key returns.
// A key type that cannot be encoded is reported by [NewTable].
func NewIndex[Obj, Key any](name string, key func(Obj) Key) Index[Obj, Key] {
	codec, err := index.For[Key]()
	return newIndex(name, codec, err, key)
}

func newIndex[Obj, Key any](name string, codec index.Codec[Key], err error, key func(Obj) Key) Index[Obj, Key] {
	ix := Index[Obj, Key]{core: coreIndex(name, codec), codec: codec, err: err}
	if ix.err = problem(name, err, key == nil); ix.err != nil {
		return ix
	}
	ix.core.Append = func(buf []byte, row unsafe.Pointer) []byte { return codec.Append(buf, key(object[Obj](row))) }
	ix.core.Text = func(row unsafe.Pointer, matches func([]byte) bool) string {
		return textOf(codec, key(object[Obj](row)), matches)
	}
	return ix
}

// NewMultiIndex declares an index with any number of keys per row. A row without keys is
// not in the index and costs it nothing; a key that is yielded twice counts once. It cannot
// be a primary index.
func NewMultiIndex[Obj, Key any](name string, keys func(Obj) iter.Seq[Key]) Index[Obj, Key] {
	codec, err := index.For[Key]()
	return newMultiIndex(name, codec, err, keys)
}

func newMultiIndex[Obj, Key any](name string, codec index.Codec[Key], err error, keys func(Obj) iter.Seq[Key]) Index[Obj, Key] {
	ix := Index[Obj, Key]{core: coreIndex(name, codec), codec: codec}
	ix.core.Multi = true
	if ix.err = problem(name, err, keys == nil); ix.err != nil {
		return ix
	}
	ix.core.Keys = func(row unsafe.Pointer, into *store.Keys) { appendKeys(codec, keys(object[Obj](row)), into) }
	ix.core.Text = func(row unsafe.Pointer, matches func([]byte) bool) string {
		return firstText(codec, keys(object[Obj](row)), matches)
	}
	return ix
}

// The functions below are compiled once for each type of keys, whatever the rows.

func coreIndex[Key any](name string, codec index.Codec[Key]) *store.Index {
	return &store.Index{Name: name, Key: reflect.TypeFor[Key](), PrefixFree: codec.PrefixFree(), Parse: func(text string) ([]byte, error) {
		key, err := codec.Parse(text)
		if err != nil {
			return nil, err
		}
		return codec.Encode(key), nil
	}}
}

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

func textOf[Key any](codec index.Codec[Key], key Key, matches func([]byte) bool) string {
	if !matches(codec.Encode(key)) {
		return ""
	}
	return codec.Format(key)
}

func appendKeys[Key any](codec index.Codec[Key], keys iter.Seq[Key], into *store.Keys) {
	if keys == nil {
		return
	}
	for key := range keys {
		into.Bytes = codec.Append(into.Bytes, key)
		into.Ends = append(into.Ends, len(into.Bytes))
	}
}

func firstText[Key any](codec index.Codec[Key], keys iter.Seq[Key], matches func([]byte) bool) string {
	if keys == nil {
		return ""
	}
	for key := range keys {
		if matches(codec.Encode(key)) {
			return codec.Format(key)
		}
	}
	return ""
}

// Unique returns a copy of the index in which no two rows may share a key. That is checked
// when a transaction commits, so rows may swap their keys inside a transaction; until then
// several rows can have the same key. See [UniqueError].
func (i Index[Obj, Key]) Unique() Index[Obj, Key] {
	i.core = i.core.AsUnique()
	return i
}

// Query returns the query for the rows that have key in this index.
func (i Index[Obj, Key]) Query(key Key) Query[Obj] {
	return Query[Obj]{store.Query{Index: i.core, Key: i.codec.Encode(key)}}
}

// Name returns the name of the index.
func (i Index[Obj, Key]) Name() string { return i.core.NameOrNone() }

func (i Index[Obj, Key]) untyped() (*store.Index, error) { return i.core, i.err }

func (i Index[Obj, Key]) of(Obj) {}

// Indexer is an [Index] with any type of keys, as a schema lists them. Only Index and
// PrefixIndex implement it.
type Indexer[Obj any] interface {
	Name() string
	untyped() (*store.Index, error)
	of(Obj) // ties the index to the type of its rows
}

// Query is a key of one index, made by [Index.Query]. What the table does with it depends
// on the method: equality, prefix or lower bound. It may refer to the memory of a string:
// if the query is kept, clone a key that is a small part of a large string.
type Query[Obj any] struct{ q store.Query }

// Encoded returns the bytes of the query's key as a string: equal for equal keys, and
// ordered as the keys are. It can be used as a map key.
func (q Query[Obj]) Encoded() string { return string(q.q.Key) }

// Index returns the name of the query's index.
func (q Query[Obj]) Index() string { return q.q.Index.NameOrNone() }

// Untyped returns the query without the type of its rows, for packages of this module.
func (q Query[Obj]) Untyped() store.Query { return q.q }
