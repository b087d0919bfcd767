package statedb

import (
	"bytes"
	"fmt"
)

// UniqueError says that a transaction was not committed because two rows would
// share a key of a unique index. It matches [ErrNotUnique].
type UniqueError struct {
	Table string
	Index string
	Key   string    // the shared key as text
	Rows  [2]string // the primary keys as text, in order
}

// Error implements error.
func (e *UniqueError) Error() string {
	return fmt.Sprintf("table %s, unique index %s: rows %q and %q share the key %q",
		e.Table, e.Index, e.Rows[0], e.Rows[1], e.Key)
}

// Unwrap returns ErrNotUnique.
func (e *UniqueError) Unwrap() error { return ErrNotUnique }

// claim remembers that e was given a key it did not have before. All rows stay
// in the index, the ones that had the key too, until check looks at the outcome.
func (w *writer[Obj]) claim(k indexKey, e *entry[Obj]) {
	if w.table.indexes[k.ix].isUnique() {
		w.claims = append(w.claims, indexKey{k.ix, k.key[:len(k.key)-len(e.Key())]})
	}
}

func (w *writer[Obj]) check() error {
	for _, c := range w.claims {
		if err := w.checkClaim(c); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer[Obj]) checkClaim(c indexKey) error {
	var first *entry[Obj]
	for _, e := range w.reader(c.ix).Prefix(c.key) {
		if first != nil {
			return w.table.clash(c, first, e)
		}
		first = e
	}
	return nil
}

func (t *table[Obj]) clash(shared indexKey, a, b *entry[Obj]) error {
	ix := t.indexes[shared.ix]
	key := ix.formatKey(a.obj, func(encoded []byte) bool {
		return bytes.Equal(t.secondaryKey(shared.ix, encoded, nil), shared.key)
	})
	return &UniqueError{Table: t.Name(), Index: ix.Name(), Key: key, Rows: [2]string{t.Key(a.obj), t.Key(b.obj)}}
}
