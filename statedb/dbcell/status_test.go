package dbcell

import (
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
)

type task struct {
	Name   string
	Status string
}

// counted is a table that counts how often all of its rows are asked for.
type counted struct {
	statedb.AnyTable
	scans *int
}

func (c counted) All(txn statedb.ReadTxn, opts ...statedb.ReadOption) iter.Seq[statedb.AnyRow] {
	*c.scans++
	return c.AnyTable.All(txn, opts...)
}

func TestRowsInErrorAreFoundByTheIndexIfThereIsOne(t *testing.T) {
	sparse := statedb.NewMultiIndex("status", func(row task) iter.Seq[string] {
		return func(yield func(string) bool) {
			if statusOf(row.Status) == statusError {
				yield(statusError)
			}
		}
	})
	for name, tc := range map[string]struct {
		secondary []statedb.Indexer[task]
		status    string
		want      []string
		scans     int
	}{
		"error by index":  {secondary: []statedb.Indexer[task]{sparse}, status: "error", want: []string{"b", "d"}},
		"error without":   {status: "error", want: []string{"b", "d"}, scans: 1},
		"done by a scan":  {secondary: []statedb.Indexer[task]{sparse}, status: "done", want: []string{"a"}, scans: 1},
		"pending by scan": {secondary: []statedb.Indexer[task]{sparse}, status: "pending", want: []string{"c"}, scans: 1},
	} {
		t.Run(name, func(t *testing.T) {
			db := statedb.New()
			table, err := statedb.NewTable(db, statedb.Schema[task]{
				Name:      "tasks",
				Primary:   statedb.NewIndex("name", func(row task) string { return row.Name }),
				Secondary: tc.secondary,
			})
			if err != nil {
				t.Fatal(err)
			}
			insert(t, db, table, task{"a", "done"}, task{"b", "error: it broke: twice"}, task{"c", "pending"}, task{"d", "error"})
			keys, scans := keysWithStatus(t, db, tc.status)
			if diff := cmp.Diff(tc.want, keys); diff != "" {
				t.Error(diff)
			}
			if scans != tc.scans {
				t.Errorf("the table was read %d times from end to end, want %d", scans, tc.scans)
			}
		})
	}
}

func insert(t *testing.T, db *statedb.DB, table *statedb.RWTable[task], tasks ...task) {
	t.Helper()
	err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for _, row := range tasks {
			if _, _, err := table.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, table)
	if err != nil {
		t.Fatal(err)
	}
}

func keysWithStatus(t *testing.T, db *statedb.DB, status string) (keys []string, scans int) {
	t.Helper()
	txn := db.ReadTxn()
	table, err := db.Table(txn, "tasks")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := withStatus(counted{table, &scans}, txn, status, nil)
	if err != nil {
		t.Fatal(err)
	}
	for row := range rows {
		keys = append(keys, row.Key)
	}
	return keys, scans
}
