package statedb_test

import (
	"iter"
	"slices"
	"testing"

	"github.com/statehive/statehive/statedb"
)

// itemsUpTo yields n items whose numbers and revisions count from 1, and counts how
// many were asked for.
func itemsUpTo(n int, asked *int) iter.Seq2[item, statedb.Revision] {
	return func(yield func(item, statedb.Revision) bool) {
		for i := 1; i <= n; i++ {
			*asked++
			if !yield(item{Number: i}, statedb.Revision(i)) {
				return
			}
		}
	}
}

func isEven(i item) bool { return i.Number%2 == 0 }

func number(i item) int { return i.Number }

func TestCollectOfNoRowsIsNil(t *testing.T) {
	f := newFixture(t)
	if all := statedb.Collect(f.items.All(f.db.ReadTxn())); all != nil {
		t.Errorf("collected %v", all)
	}
}

func TestFilterAndMapKeepOrderAndRevisions(t *testing.T) {
	var asked int
	rows := statedb.Map(statedb.Filter(itemsUpTo(7, &asked), isEven), number)
	if asked != 0 {
		t.Errorf("%d rows were asked for before the sequence ran", asked)
	}
	for range 2 { // a sequence can be run again
		var numbers []int
		for n, revision := range rows {
			if revision != statedb.Revision(n) {
				t.Errorf("row %d has revision %d", n, revision)
			}
			numbers = append(numbers, n)
		}
		if !slices.Equal(numbers, []int{2, 4, 6}) {
			t.Errorf("rows %v", numbers)
		}
	}
	if collected := statedb.Collect(rows); !slices.Equal(collected, []int{2, 4, 6}) {
		t.Errorf("collected %v", collected)
	}
	if n := statedb.Count(rows); n != 3 {
		t.Errorf("%d rows", n)
	}
}

func TestIterationEndsWhenTheLoopDoes(t *testing.T) {
	for name, loop := range map[string]func(iter.Seq2[item, statedb.Revision]){
		"objects": func(rows iter.Seq2[item, statedb.Revision]) {
			for i := range statedb.Objects(rows) {
				if isEven(i) {
					break
				}
			}
		},
		"filter": func(rows iter.Seq2[item, statedb.Revision]) {
			for range statedb.Filter(rows, isEven) {
				break
			}
		},
		"map": func(rows iter.Seq2[item, statedb.Revision]) {
			for n := range statedb.Map(rows, number) {
				if n == 2 {
					break
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked int
			loop(itemsUpTo(7, &asked))
			if asked != 2 {
				t.Errorf("%d rows were asked for, expected 2", asked)
			}
		})
	}
}
