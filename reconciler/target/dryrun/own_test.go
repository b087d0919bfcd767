package dryrun_test

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/dryrun"
	"github.com/statehive/statehive/statedb"
)

// planOfEnds makes a plan of rows of a kind that depend on each other. on separates the names of
// those that a row is on with spaces.
func planOfEnds(t *testing.T, target *world, rows ...dryrun.Row) dryrun.Plan {
	t.Helper()
	schema := reconciler.Reconciled(statedb.Schema[thing]{Name: "ends", Primary: byName})
	db := statedb.New()
	table, err := statedb.NewTable(db, schema)
	if err != nil {
		t.Fatal(err)
	}
	k, err := dryrun.NewKind(dryrun.Config[thing]{
		Name: "end", Schema: schema, Table: statedb.ReadOnly(table), Target: target,
		DependsOn: []reconciler.Dependency[thing]{reconciler.DependsOn(statedb.ReadOnly(table), thing.GetStatus, func(x thing) iter.Seq[statedb.Query[thing]] {
			var queries []statedb.Query[thing]
			for name := range strings.FieldsSeq(x.On) {
				queries = append(queries, byName.Query(name))
			}
			return slices.Values(queries)
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := dryrun.Make(t.Context(), dryrun.Params{Txn: db.ReadTxn(), Kinds: []dryrun.Kind{k}, Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRowsOfOneKindComeAfterThoseThatTheyDependOn(t *testing.T) {
	p := planOfEnds(t, &world{t: t}, rowOf("end", "a", "1", "b"), rowOf("end", "b", "1", "c"), rowOf("end", "c", "1", ""))
	want(t, p, "create end c value:>1", "create end b after end c", "create end a after end b", "3 0 0 0 0")
}

// An apply never gets to rows that wait for each other, whether or not they can be compared.
func TestRowsThatWaitForEachOtherAreErrors(t *testing.T) {
	const cycle = ": in a cycle of rows that wait for each other: "
	rows := []dryrun.Row{
		rowOf("end", "x", "1", "y"), rowOf("end", "y", "1", "b z"), rowOf("end", "z", "1", "x"), rowOf("end", "b", "1", ""),
		rowOf("end", "a", "1", "x"), rowOf("end", "bad", "invalid", "worse"), rowOf("end", "worse", "1", "bad"),
	}
	p := planOfEnds(t, &world{t: t}, rows...)
	want(t, p,
		"create end b value:>1",
		"error end z after end x"+cycle+"end z -> end x -> end y -> end z",
		"error end y after end b, end z"+cycle+"end y -> end z -> end x -> end y",
		"error end x after end y"+cycle+"end x -> end y -> end z -> end x",
		"error end a after end x: what it is on is not there",
		"error end worse after end bad"+cycle+"end worse -> end bad -> end worse",
		"error end bad after end worse: it is not valid",
		"1 0 0 6 0")
	p = planOfEnds(t, &world{t: t, lacking: map[string]bool{"x": true, "y": true, "z": true, "b z": true}}, rows[:5]...)
	want(t, p,
		"create end b value:>1",
		"error end z value:>1 after end x"+cycle+"end z -> end x -> end y -> end z",
		"error end y value:>1 after end b, end z"+cycle+"end y -> end z -> end x -> end y",
		"error end x value:>1 after end y"+cycle+"end x -> end y -> end z -> end x",
		"error end a value:>1 after end x: waits for end x, which would be in error",
		"1 0 0 4 0")
}

func TestRowsOfOneKindAreDeletedBeforeThoseThatTheyDependOn(t *testing.T) {
	p := planOfEnds(t, &world{
		t:    t,
		ours: map[string]string{"a": "1", "b": "1", "c": "1", "d": "1", "kept": "1", "x": "1", "y": "1"},
		on:   map[string]string{"b": "a", "d": "b", "c": "kept", "x": "y", "y": "x"},
	}, rowOf("end", "kept", "1", ""))
	want(t, p, "delete end c", "delete end d", "delete end b", "delete end a", "delete end y", "delete end x", "0 0 6 0 1")
}
