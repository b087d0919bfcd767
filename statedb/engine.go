package statedb

import (
	"slices"

	"github.com/statehive/statehive/statedb/internal/engine"
	"github.com/statehive/statehive/statedb/internal/engine/iradix"
	"github.com/statehive/statehive/statedb/internal/engine/trie"
)

// WithReferenceEngine has the tables keep their indexes in the trees of
// go-immutable-radix, which is in wide use, in place of the database's own: to
// find out whether something strange is the engine's fault. It needs more time
// and several times the memory; nothing else differs.
func WithReferenceEngine() Option {
	return func(db *DB) { db.reference = true }
}

// emptyTree returns the first version of an index.
func (t *table[Obj]) emptyTree(ix int) engine.Tree[*entry[Obj]] {
	head := slices.Index(t.shared, ix)
	switch {
	case t.lock.db.reference:
		return iradix.New[*entry[Obj]]()
	case ix == 0:
		return trie.NewHolding[entry[Obj]]()
	case head >= 0:
		return trie.NewFurther[entry[Obj]](headDistance[Obj](head))
	}
	return trie.New[*entry[Obj]]()
}
