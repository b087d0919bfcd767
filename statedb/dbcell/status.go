package dbcell

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/statehive/statehive/statedb"
)

// The names of the convention for rows that have a status; see the package comment.
const (
	statusColumn = "Status"
	statusIndex  = "status"
	statusError  = "error"
)

func statuses() []string { return []string{"pending", "done", statusError} }

// withStatus yields the rows of a table whose status is the given one.
func withStatus(table statedb.AnyTable, txn statedb.ReadTxn, status string, opts []statedb.ReadOption) (iter.Seq[statedb.AnyRow], error) {
	if !slices.Contains(statuses(), status) {
		return nil, fmt.Errorf("unknown status %q; there are: %s", status, strings.Join(statuses(), ", "))
	}
	column := slices.Index(table.Columns(), statusColumn)
	if column < 0 {
		return nil, &statedb.TableError{Table: table.Name(), Err: fmt.Errorf("its rows have no status: no column %q; there are: %s",
			statusColumn, strings.Join(table.Columns(), ", "))}
	}
	candidates, err := mayHaveStatus(table, txn, status, opts)
	if err != nil {
		return nil, err
	}
	return func(yield func(statedb.AnyRow) bool) {
		for row := range candidates {
			if statusOf(row.Cells[column]) == status && !yield(row) {
				return
			}
		}
	}, nil
}

// mayHaveStatus yields at least the rows that have the given status.
func mayHaveStatus(table statedb.AnyTable, txn statedb.ReadTxn, status string, opts []statedb.ReadOption) (iter.Seq[statedb.AnyRow], error) {
	if status == statusError && slices.Contains(table.Indexes(), statusIndex) {
		return table.List(txn, statusIndex, statusError, opts...)
	}
	return table.All(txn, opts...), nil
}

// statusOf returns the word at the beginning of a status.
func statusOf(cell string) string {
	word, _, _ := strings.Cut(cell, ":")
	return word
}
