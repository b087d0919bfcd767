package statedb_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb"
)

// engines are those that the tests of models run on. All others do so with the
// build tag reference_engine.
var engines = []statedb.Option{func(*statedb.DB) {}, statedb.WithReferenceEngine()}

func drawEngine(t *rapid.T) statedb.Option {
	return engines[rapid.IntRange(0, len(engines)-1).Draw(t, "engine")]
}

func TestATableIsTheSameOnEitherEngine(t *testing.T) {
	contents := func(engine statedb.Option) (all, some []string) {
		db := statedb.New(engine)
		f := &fixture{t, db, newTable(t, db, itemSchema("items"))}
		for i := range 200 {
			f.insert(item{ID: fmt.Sprint("item-", i*7919%200), Group: fmt.Sprint(i % 5), Number: i, Tags: "a b"})
		}
		f.remove("item-1", "item-10", "item-199")
		txn := db.ReadTxn()
		return ids(f.items.All(txn)), ids(f.items.List(txn, byGroup.Query("3"), statedb.Reverse()))
	}
	all, some := contents(engines[0])
	referenceAll, referenceSome := contents(engines[1])
	if len(all) != 197 || !slices.Equal(all, referenceAll) || !slices.Equal(some, referenceSome) {
		t.Errorf("rows %v and %v,\non the reference engine %v and %v", all, some, referenceAll, referenceSome)
	}
}
