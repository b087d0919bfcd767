package statedb_test

import (
	"fmt"
	"testing"

	"github.com/statehive/statehive/statedb"
)

const benchRows = 10_000

// newBench returns a table with rows and a secondary index.
func newBench(b *testing.B) (*statedb.DB, *statedb.RWTable[item], []item) {
	b.Helper()
	db := newDB()
	table := newTable(b, db, statedb.Schema[item]{
		Name: "items", Primary: byID, Secondary: []statedb.Indexer[item]{byGroup}, Amend: itemStatus,
	})
	rows := make([]item, benchRows)
	for i := range rows {
		rows[i] = item{ID: fmt.Sprintf("namespace-%d/pod-%06x", i%17, i*7919), Group: fmt.Sprint("group-", i/10)}
	}
	insert(b, db, table, rows)
	return db, table, rows
}

func insert(b *testing.B, db *statedb.DB, table *statedb.RWTable[item], rows []item) {
	b.Helper()
	err := db.Update(b.Context(), func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := table.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, table)
	if err != nil {
		b.Fatal(err)
	}
}

// perRow reports what one row costs when an operation is about n of them.
func perRow(b *testing.B, n int) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
}

func BenchmarkInsert(b *testing.B) {
	for _, batch := range []int{1, 100, 1_000} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			db, table, rows := newBench(b)
			batches := make([]item, batch)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				for i := range batches {
					batches[i] = rows[(n*batch+i)*31%len(rows)]
					batches[i].Number = n + 1
				}
				insert(b, db, table, batches)
			}
			perRow(b, batch)
		})
	}
}

func BenchmarkGet(b *testing.B) {
	db, table, rows := newBench(b)
	txn := db.ReadTxn()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if _, _, ok := table.Get(txn, byID.Query(rows[n*31%len(rows)].ID)); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkList(b *testing.B) {
	db, table, rows := newBench(b)
	txn := db.ReadTxn()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		found := 0
		for range table.List(txn, byGroup.Query(rows[n*31%len(rows)].Group)) {
			found++
		}
		if found != 10 {
			b.Fatal(found)
		}
	}
	perRow(b, 10)
}

// BenchmarkCursor changes 100 rows and reads the changes.
func BenchmarkCursor(b *testing.B) {
	const batch = 100
	db, table, rows := newBench(b)
	cursor := table.Changes(table.Revision(db.ReadTxn()))
	defer cursor.Close()
	batches := make([]item, batch)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		for i := range batches {
			batches[i] = rows[(n*batch+i)*31%len(rows)]
			batches[i].Number = n + 1
		}
		insert(b, db, table, batches)
		b.StartTimer()
		seen := 0
		for range cursor.Next(db.ReadTxn()) {
			seen++
		}
		if seen != batch {
			b.Fatal(seen)
		}
	}
	perRow(b, batch)
}

// BenchmarkAmend writes 100 statuses in a transaction.
func BenchmarkAmend(b *testing.B) {
	const batch = 100
	db, table, rows := newBench(b)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		err := db.Update(b.Context(), func(txn *statedb.WriteTxn) error {
			for i := range batch {
				row := rows[(n*batch+i)*31%len(rows)]
				amended, err := table.Amend(txn, row, benchRows, func(current item) item {
					current.Status = n + 1
					return current
				})
				if !amended || err != nil {
					b.Fatal(amended, err)
				}
			}
			return nil
		}, table)
		if err != nil {
			b.Fatal(err)
		}
	}
	perRow(b, batch)
}
