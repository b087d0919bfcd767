package noop

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// batch is how many rows a transaction writes.
const batch = 1000

// row has 32 bytes.
type row struct {
	ID     uint64
	Status reconciler.Status
}

func (r row) GetStatus() reconciler.Status       { return r.Status }
func (r row) WithStatus(s reconciler.Status) row { r.Status = s; return r }
func sequential(i int) uint64                    { return uint64(i) }
func random(i int) uint64                        { return mix(mix(uint64(i))) }

var byID = statedb.NewIndex("id", func(r row) uint64 { return r.ID })

// mix spreads numbers. It can be undone, so that no two become the same.
func mix(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	return n ^ n>>32
}

// target has nothing to do and counts how often.
type target struct{ updates atomic.Int64 }

func (*target) Init(context.Context) error { return nil }

func (t *target) Update(context.Context, statedb.ReadTxn, row) (reconciler.Result, error) {
	t.updates.Add(1)
	return reconciler.Result{}, nil
}

func (*target) Delete(context.Context, statedb.ReadTxn, row) error { return nil }

func (*target) Prune(context.Context, statedb.ReadTxn, iter.Seq2[row, statedb.Revision]) (int, error) {
	return 0, nil
}

func runStatehive(id func(int) uint64) run {
	return func(ctx context.Context, n, workers int) (int, error) {
		db := statedb.New()
		table, err := statedb.NewTable(db, reconciler.Reconciled(statedb.Schema[row]{Name: "rows", Primary: byID}))
		if err != nil {
			return 0, err
		}
		target := &target{}
		r, err := reconciler.New(reconciler.Params[row]{
			DB: db, Table: table, Target: target,
			Config: reconciler.Config{Workers: workers, FullInterval: -1},
		})
		if err != nil {
			return 0, err
		}
		var writing error
		err = whileRunning(ctx, r.Run, func(ended <-chan struct{}) {
			if writing = write(ctx, db, table, id, n); writing == nil {
				awaitStatuses(db, statedb.ReadOnly(table), n, ended)
			}
		})
		if s := r.Summary(db.ReadTxn()); writing == nil && err == nil && s.Done != n {
			err = fmt.Errorf("%d of %d rows are done", s.Done, n)
		}
		if writing != nil {
			err = writing
		}
		return int(target.updates.Load()), err
	}
}

func write(ctx context.Context, db *statedb.DB, table *statedb.RWTable[row], id func(int) uint64, n int) error {
	for first := 0; first < n; first += batch {
		err := db.Update(ctx, func(txn *statedb.WriteTxn) error {
			for i := first; i < min(first+batch, n); i++ {
				if _, _, err := table.Insert(txn, row{ID: id(i)}); err != nil {
					return err
				}
			}
			return nil
		}, table)
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitStatuses returns when n rows were written twice: once as they are, and
// once with their status.
func awaitStatuses(db *statedb.DB, table *statedb.Table[row], n int, ended <-chan struct{}) {
	for {
		txn := db.ReadTxn()
		if int(table.Revision(txn)) >= 2*n {
			return
		}
		if _, changed := table.AllWatch(txn); !await(changed, ended) {
			return
		}
	}
}
