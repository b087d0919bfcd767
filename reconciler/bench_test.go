package reconciler_test

import (
	"context"
	"iter"
	"strconv"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// idle is a target that has nothing to do.
type idle struct{}

func (idle) Init(context.Context) error { return nil }

func (idle) Update(context.Context, statedb.ReadTxn, row) (reconciler.Result, error) {
	return reconciler.Result{}, nil
}

func (idle) Delete(context.Context, statedb.ReadTxn, row) error { return nil }

func (idle) Prune(context.Context, statedb.ReadTxn, iter.Seq2[row, statedb.Revision]) (int, error) {
	return 0, nil
}

// BenchmarkReconcile writes 100,000 rows in batches of 1,000 and waits for the
// status of each.
func BenchmarkReconcile(b *testing.B) {
	for _, workers := range []int{1, 4} {
		b.Run("workers="+strconv.Itoa(workers), func(b *testing.B) {
			b.ReportAllocs()
			const n = 100_000
			for b.Loop() {
				reconcileRows(b, n, workers)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func reconcileRows(b *testing.B, n, workers int) {
	b.Helper()
	db := statedb.New()
	table := must(statedb.NewTable(db, rowSchema()))
	tally := &tallyKeeper{}
	r := must(reconciler.New(reconciler.Params[row]{
		DB: db, Table: table, Target: idle{}, Metrics: tally, Config: reconciler.Config{Workers: workers},
	}))
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	for first := 0; first < n; first += 1000 {
		err := db.Update(ctx, func(txn *statedb.WriteTxn) error {
			for i := range 1000 {
				if _, _, err := table.Insert(txn, row{ID: strconv.Itoa(1_000_000 + first + i), Want: i}); err != nil {
					return err
				}
			}
			return nil
		}, table)
		if err != nil {
			b.Fatal(err)
		}
	}
	// Each row was written once and had one status written.
	for ctx.Err() == nil && int(table.Revision(db.ReadTxn())) < 2*n {
		_, changed := table.AllWatch(db.ReadTxn())
		if int(table.Revision(db.ReadTxn())) < 2*n {
			<-changed
		}
	}
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	if done := r.Summary(db.ReadTxn()).Done; done != n {
		b.Fatalf("%d rows are done, want %d", done, n)
	}
}
