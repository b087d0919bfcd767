package tables

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/statehive/statehive/statedb"
)

// Propagation returns the median and the 99th percentile of how long it takes
// until who waits for a table that is filled from another one has a new row; ok
// is false when the stores of this maker cannot do it.
func Propagation(m Maker, times int) (p50, p99 time.Duration, ok bool, err error) {
	s, err := m.New(0, 2)
	if err != nil {
		return 0, 0, false, err
	}
	d, ok := s.(Deriver)
	if !ok {
		return 0, 0, false, nil
	}
	took, err := d.Propagate(times)
	if err != nil {
		return 0, 0, false, err
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], true, nil
}

// relay runs copy in a goroutine while it calls write so many times, each time
// waiting for the channel that arrival returned before.
func relay(times int, copying func(ctx context.Context) error, arrival func() <-chan struct{}, write func(version int) error) ([]time.Duration, error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- copying(ctx) }()
	var took []time.Duration
	for i := range times {
		arrived, began := arrival(), time.Now()
		if err := write(i + 1); err != nil {
			stop()
			return nil, err
		}
		select {
		case <-arrived:
			took = append(took, time.Since(began))
		case err := <-ended:
			stop()
			return nil, err
		}
	}
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	return took, nil
}

func (s *statehive) Propagate(times int) ([]time.Duration, error) {
	target, err := statedb.NewTable(s.db, statedb.Schema[Row]{Name: "derived", Primary: byID})
	if err != nil {
		return nil, err
	}
	write := func(ctx context.Context, table *statedb.RWTable[Row], row Row) error {
		return s.db.Update(ctx, func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, row)
			return err
		}, table)
	}
	copying := func(ctx context.Context) error {
		return statedb.Follow(ctx, statedb.ReadOnly(s.table), statedb.FollowOptions{}, func(ctx context.Context, b statedb.Batch[Row]) error {
			for _, change := range b.Changes {
				if err := write(ctx, target, change.Object); err != nil {
					return err
				}
			}
			return nil
		})
	}
	arrival := func() <-chan struct{} {
		_, _, watch, _ := target.GetWatch(s.db.ReadTxn(), byID.Query("row"))
		return watch
	}
	return relay(times, copying, arrival, func(version int) error {
		return write(context.Background(), s.table, Row{ID: "row", Version: version})
	})
}

// Propagate copies from the last table to the first.
func (m *memDB) Propagate(times int) ([]time.Duration, error) {
	const target = "rows-0"
	write := func(table string, row *Row) error {
		txn := m.db.Txn(true)
		defer txn.Abort()
		if err := txn.Insert(table, row); err != nil {
			return err
		}
		txn.Commit()
		return nil
	}
	first := func(table string) (<-chan struct{}, any) {
		watch, row, _ := m.db.Txn(false).FirstWatch(table, "id", "row")
		return watch, row
	}
	copying := func(ctx context.Context) error {
		seen := 0
		for ctx.Err() == nil {
			watch, row := first(m.table)
			if r, ok := row.(*Row); ok && r.Version != seen {
				seen = r.Version
				if err := write(target, r); err != nil {
					return err
				}
				continue
			}
			ws := memdb.NewWatchSet()
			ws.Add(watch)
			_ = ws.WatchCtx(ctx) // its error is that of ctx
		}
		return nil
	}
	arrival := func() <-chan struct{} {
		watch, _ := first(target)
		return watch
	}
	return relay(times, copying, arrival, func(version int) error {
		return write(m.table, &Row{ID: "row", Version: version})
	})
}
