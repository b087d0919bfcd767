package route

import (
	"iter"
	"slices"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// InTable is the key of [ByTable]. Its text is as in "inet,100,false".
type InTable struct {
	Family Family
	Table  Table
	// Untried selects only pending rows.
	Untried bool
}

// ByTable finds the rows of a routing table, or only those that have not been tried since
// they were written. Rows of the table main are not in the index: there may be many, and
// the kernel always looks there.
var ByTable = statedb.NewMultiIndex("table", func(r Route) iter.Seq[InTable] {
	key := r.Key()
	if key.Table == MainTable {
		return nil
	}
	all := InTable{Family: key.family(), Table: key.Table}
	if r.Status.Kind() != reconciler.Pending {
		return slices.Values([]InTable{all})
	}
	untried := all
	untried.Untried = true
	return slices.Values([]InTable{all, untried})
})

// ByUndone finds the rows of a family that are pending or in error.
var ByUndone = statedb.NewMultiIndex("undone", func(r Route) iter.Seq[Family] {
	if r.Status.Kind() == reconciler.Done {
		return nil
	}
	return slices.Values([]Family{r.Key().family()})
})
