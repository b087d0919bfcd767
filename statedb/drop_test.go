package statedb_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
)

func (f *fixture) drop() {
	f.t.Helper()
	if err := f.db.Drop(f.t.Context(), f.items); err != nil {
		f.t.Fatal(err)
	}
}

func TestADroppedTableIsGoneAndItsNameFree(t *testing.T) {
	f := newFixture(t, item{ID: "a"}, item{ID: "b"})
	other := newTable(t, f.db, itemSchema("others"))
	before := f.db.ReadTxn()
	f.drop()

	_, err := f.db.WriteTxn(t.Context(), other, f.items)
	wantError(t, err, statedb.ErrDropped)
	wantError(t, f.try(func(*statedb.WriteTxn) error { return nil }), statedb.ErrDropped)
	wantError(t, f.db.Drop(t.Context(), f.items), statedb.ErrDropped)
	_, err = f.db.Table(f.db.ReadTxn(), "items")
	wantError(t, err, statedb.ErrUnknownTable)

	next := newTable(t, f.db, itemSchema("items")) // takes the place of the old one
	if err := f.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := next.Insert(txn, item{ID: "new"})
		return err
	}, next, other); err != nil {
		t.Fatal(err)
	}
	now := f.db.ReadTxn()
	for _, c := range []struct {
		name  string
		table *statedb.Table[item]
		txn   statedb.ReadTxn
		want  []string
	}{
		{"old table, old snapshot", statedb.ReadOnly(f.items), before, []string{"a", "b"}},
		{"old table, new snapshot", statedb.ReadOnly(f.items), now, nil},
		{"new table, old snapshot", statedb.ReadOnly(next), before, nil},
		{"new table, new snapshot", statedb.ReadOnly(next), now, []string{"new"}},
	} {
		if got := ids(c.table.All(c.txn)); !slices.Equal(got, c.want) || c.table.Len(c.txn) != len(c.want) {
			t.Errorf("%s: %v (%d), want %v", c.name, got, c.table.Len(c.txn), c.want)
		}
	}
	if tables := f.db.Tables(before); len(tables) != 2 || tables[0].Len(before) != 2 {
		t.Errorf("the old snapshot lists %d tables", len(tables))
	}
}

func TestDropWaitsForOpenTransactionsAndEndsThoseBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		txn := f.write()
		dropped, behind := make(chan error, 1), make(chan error, 1)
		go func() { dropped <- f.db.Drop(t.Context(), f.items) }()
		synctest.Wait()
		go func() { behind <- f.try(func(*statedb.WriteTxn) error { return nil }) }()
		synctest.Wait()
		if _, _, err := f.items.Insert(txn, item{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		committed, err := txn.Commit()
		if err != nil || f.items.Len(committed) != 1 {
			t.Errorf("the open transaction committed %d rows (%v)", f.items.Len(committed), err)
		}
		if err := <-dropped; err != nil {
			t.Error(err)
		}
		wantError(t, <-behind, statedb.ErrDropped)
	})
}

func TestADropThatIsGivenUpChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		txn := f.write()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, watch := f.items.AllWatch(f.db.ReadTxn())
		wantError(t, f.db.Drop(ctx, f.items), context.DeadlineExceeded)
		txn.Abort()
		if closed(watch) {
			t.Error("a watch closed")
		}
		f.insert(item{ID: "a"})
		wantError(t, f.db.Drop(t.Context(), nil), statedb.ErrForeignTable)
		wantError(t, newDB().Drop(t.Context(), f.items), statedb.ErrForeignTable)
	})
}

// itemWatches takes every kind of watch on the table, for what is there and what is not.
func itemWatches(items *statedb.Table[item], txn statedb.ReadTxn) map[string]<-chan struct{} {
	watches := map[string]<-chan struct{}{}
	_, watches["all"] = items.AllWatch(txn)
	_, watches["initialized"] = items.Initialized(txn)
	for _, id := range []string{"a", "ab", "nothing", ""} {
		_, _, watches["get "+id], _ = items.GetWatch(txn, byID.Query(id))
		_, watches["prefix "+id] = items.PrefixWatch(txn, byID.Query(id))
		_, watches["lower bound "+id] = items.LowerBoundWatch(txn, byID.Query(id))
		_, watches["group "+id] = items.ListWatch(txn, byGroup.Query(id))
		_, watches["tag "+id] = items.PrefixWatch(txn, byTag.Query(id))
	}
	return watches
}

func TestDropClosesEveryWatchOnce(t *testing.T) {
	for name, rows := range map[string][]item{
		"empty": nil,
		"one":   {{ID: "a", Group: "a", Tags: "a"}},
		"some":  {{ID: "a", Group: "a"}, {ID: "ab", Group: "b", Tags: "a b"}, {ID: "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, rows...)
			f.update(func(txn *statedb.WriteTxn) error {
				_, err := f.items.RegisterSource(txn, "source")
				return err
			})
			before := f.db.ReadTxn()
			early := itemWatches(statedb.ReadOnly(f.items), before)
			for name, watch := range early {
				if closed(watch) {
					t.Errorf("watch of %s is closed before the drop", name)
				}
			}
			f.drop()
			for name, watch := range early {
				if !closed(watch) {
					t.Errorf("watch of %s is open after the drop", name)
				}
			}
			for name, watch := range itemWatches(statedb.ReadOnly(f.items), before) {
				if !closed(watch) {
					t.Errorf("late watch of %s on the old snapshot is open", name)
				}
			}
			for name, watch := range itemWatches(statedb.ReadOnly(f.items), f.db.ReadTxn()) {
				if watch != nil {
					t.Errorf("watch of %s on a snapshot without the table: a loop would spin or wait for it", name)
				}
			}
			if initialized, _ := f.items.Initialized(f.db.ReadTxn()); initialized {
				t.Error("the dropped table is initialized")
			}
		})
	}
}

func TestDroppingATableOfNetworksClosesItsWatches(t *testing.T) {
	for name, rows := range map[string][]network{
		"empty": nil,
		"some":  {{Name: "a", Prefix: netip.MustParsePrefix("10.0.0.0/8")}, {Name: "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetworks(t)
			n.insert(t, rows...)
			for _, table := range []*statedb.RWTable[network]{n.primary, n.secondary} {
				_, _, watch, _ := byPrefix.LookupWatch(n.db.ReadTxn(), statedb.ReadOnly(table), netip.MustParseAddr("10.1.2.3"))
				_, _, absent, _ := byPrefix.LookupWatch(n.db.ReadTxn(), statedb.ReadOnly(table), netip.MustParseAddr("fe80::1"))
				check(t, "drop", n.db.Drop(t.Context(), table))
				if !closed(watch) || !closed(absent) {
					t.Errorf("watches of the dropped table %s are open", table.Name())
				}
			}
		})
	}
}

func TestACursorEndsWithItsTable(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	cursor := f.items.Changes(0)
	defer cursor.Close()
	drain := func(txn statedb.ReadTxn) (n int) {
		for range cursor.Next(txn) {
			n++
		}
		return n
	}
	drain(f.db.ReadTxn())
	f.insert(item{ID: "b"})
	before, watch := f.db.ReadTxn(), cursor.Watch()
	f.drop()
	if !closed(watch) || cursor.Err() != nil || cursor.Lag() != 0 {
		t.Errorf("after the drop: watch closed: %t, error %v, lag %d", closed(watch), cursor.Err(), cursor.Lag())
	}
	if n := drain(before); n != 1 || !closed(cursor.Watch()) {
		t.Errorf("the snapshot from before yields %d changes; watch closed: %t", n, closed(cursor.Watch()))
	}
	if n := drain(f.db.ReadTxn()); n != 0 || cursor.Watch() != nil {
		t.Errorf("the snapshot from after yields %d changes, watch %v", n, cursor.Watch())
	}
	wantError(t, cursor.Err(), statedb.ErrDropped)

	late := f.items.Changes(0)
	for range late.Next(f.db.ReadTxn()) {
		t.Error("a cursor on a dropped table yields something")
	}
	wantError(t, late.Err(), statedb.ErrDropped)
	late.Close()
	if !closed(late.Watch()) {
		t.Error("the watch of a closed cursor is open")
	}
}

// heavy is a row whose end can be noticed.
type heavy struct {
	id string
	_  [1 << 16]byte
}

func TestTheMemoryOfADroppedTableGoesWithItsSnapshots(t *testing.T) {
	const count = 50
	db := newDB()
	table := newTable(t, db, statedb.Schema[*heavy]{
		Name: "heavy", Primary: statedb.NewIndex("id", func(h *heavy) string { return h.id }),
	})
	cursor := table.Changes(0)
	defer cursor.Close()
	var freed atomic.Int32
	err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for i := range count {
			row := &heavy{id: fmt.Sprint(i)}
			runtime.AddCleanup(row, func(int) { freed.Add(1) }, i)
			if _, _, err := table.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, table)
	if err != nil {
		t.Fatal(err)
	}
	dropUnderASnapshot(t, db, table)
	for deadline := time.Now().Add(10 * time.Second); freed.Load() < count && time.Now().Before(deadline); {
		runtime.GC()
		runtime.Gosched()
	}
	if n := freed.Load(); n != count {
		t.Errorf("%d of %d rows were freed", n, count)
	}
	runtime.KeepAlive(table)
}

func dropUnderASnapshot(t *testing.T, db *statedb.DB, table *statedb.RWTable[*heavy]) {
	t.Helper()
	snapshot := db.ReadTxn()
	before := table.Len(snapshot)
	if err := db.Drop(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	if n := table.Len(snapshot); n == 0 || n != before {
		t.Errorf("the snapshot has %d rows after the drop, %d before", n, before)
	}
}

// TestTablesComeAndGoUnderLoad has everyone at work on tables that are dropped
// and made again all the time.
func TestTablesComeAndGoUnderLoad(t *testing.T) {
	const names, generations = 4, 60
	db := newDB()
	steady := newTable(t, db, itemSchema("steady"))
	var slots [names]atomic.Pointer[*statedb.RWTable[item]]
	for i := range names {
		table := newTable(t, db, itemSchema(fmt.Sprint("t", i)))
		slots[i].Store(&table)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var load, owners sync.WaitGroup
	for i := range names {
		owners.Go(func() {
			for range generations {
				if err := db.Drop(t.Context(), *slots[i].Load()); err != nil {
					t.Error(err)
				}
				next := newTable(t, db, itemSchema(fmt.Sprint("t", i)))
				slots[i].Store(&next)
			}
		})
	}
	for i := range names {
		load.Go(func() { writeBoth(ctx, t, db, steady, &slots[i]) })
		load.Go(func() { followAll(ctx, t, db, &slots[i]) })
	}
	owners.Wait()
	cancel()
	load.Wait()
	if n := len(db.Tables(db.ReadTxn())); n != names+1 {
		t.Errorf("%d tables are left, want %d", n, names+1)
	}
}

func writeBoth(ctx context.Context, t *testing.T, db *statedb.DB, steady *statedb.RWTable[item], slot *atomic.Pointer[*statedb.RWTable[item]]) {
	for n := 0; ctx.Err() == nil; n++ {
		table := *slot.Load()
		err := db.Update(ctx, func(txn *statedb.WriteTxn) error {
			_, _, err := steady.Insert(txn, item{ID: table.Name(), Number: n})
			_, _, err2 := table.Insert(txn, item{ID: fmt.Sprint(n % 100), Group: table.Name()})
			return errors.Join(err, err2)
		}, table, steady)
		if err != nil && !errors.Is(err, statedb.ErrDropped) && ctx.Err() == nil {
			t.Error(err)
		}
	}
}

// followAll follows one table after the other, each to its end.
func followAll(ctx context.Context, t *testing.T, db *statedb.DB, slot *atomic.Pointer[*statedb.RWTable[item]]) {
	for ctx.Err() == nil {
		table := *slot.Load()
		fold := newFold()
		cursor := table.Changes(0)
		for cursor.Err() == nil && ctx.Err() == nil {
			txn := db.ReadTxn()
			fold.drain(cursor, txn)
			if err := fold.differs(statedb.ReadOnly(table), txn); cursor.Err() == nil && err != nil {
				t.Error(err)
			}
			select {
			case <-cursor.Watch():
			case <-ctx.Done():
			}
		}
		cursor.Close()
	}
}
