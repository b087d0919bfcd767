package statedb_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb"
)

// Tests run on one engine, those that draw or name theirs on all of them.
var reference = flag.Bool("reference", false, "run the tests on the reference engine")

// newDB returns a database with the engine that is to be tested.
func newDB(options ...statedb.Option) *statedb.DB {
	if *reference {
		options = append([]statedb.Option{statedb.WithReferenceEngine()}, options...)
	}
	return statedb.New(options...)
}

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
