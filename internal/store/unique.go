package store

import (
	"bytes"
	"fmt"

	"github.com/statehive/statehive/internal/store/trie"
)

// UniqueError reports that a transaction was not committed because two rows would share a
// key of a unique index. It matches [ErrNotUnique].
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

// claim records that e has a key that its row did not have before. Rows that already have the
// key stay in the index until check detects duplicates.
func (w *writer) claim(k indexKey, e *Entry) {
	if w.table.indexes[k.ix].Unique {
		w.claims = append(w.claims, indexKey{k.ix, k.key[:len(k.key)-len(e.Key())]})
	}
}

func (w *writer) check() error {
	for _, c := range w.claims {
		if err := w.checkClaim(c); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) checkClaim(c indexKey) error {
	tree := w.view(c.ix)
	claimants := tree.Prefix(c.key)
	var first *Entry
	var s trie.Scan
	s.Start(&claimants)
	for run := s.Next(); len(run) > 0; run = s.Next() {
		for _, leaf := range run {
			e := (*Entry)(trie.Entry(leaf))
			if first != nil {
				return w.table.uniqueError(c, first, e)
			}
			first = e
		}
	}
	return nil
}

func (t *Table) uniqueError(shared indexKey, a, b *Entry) error {
	ix := t.indexes[shared.ix]
	key := ix.Text(a.Row(), func(encoded []byte) bool {
		return bytes.Equal(t.secondaryKey(shared.ix, encoded, nil), shared.key)
	})
	return &UniqueError{Table: t.name, Index: ix.Name, Key: key, Rows: [2]string{t.Key(a.Row()), t.Key(b.Row())}}
}
