package statedb_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
)

// logged is what a database has logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.FieldsFunc(l.text.String(), func(r rune) bool { return r == '\n' })
}

// newLogged returns a database with two tables, and what it logs.
func newLogged(t *testing.T) (db *statedb.DB, a, b *statedb.RWTable[item], log *logged) {
	t.Helper()
	log = &logged{}
	db = newDB(statedb.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	a, b = newTable(t, db, itemSchema("a")), newTable(t, db, itemSchema("b"))
	for _, table := range []*statedb.RWTable[item]{a, b} {
		contend(t, db, table)
	}
	return db, a, b, log
}

// contend has somebody wait for a table: from then on it is known where transactions on
// it begin.
func contend(t *testing.T, db *statedb.DB, table *statedb.RWTable[item]) {
	t.Helper()
	txn, err := db.WriteTxn(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	waitToWrite(t, db, table)
	txn.Abort()
	synctest.Wait()
}

// waitToWrite waits for the lock of a table in the background.
func waitToWrite(t *testing.T, db *statedb.DB, tables ...statedb.TableMeta) {
	t.Helper()
	go func() {
		if err := db.Update(t.Context(), func(*statedb.WriteTxn) error { return nil }, tables...); err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
}

func wantReports(t *testing.T, log *logged, reports ...[]string) {
	t.Helper()
	synctest.Wait()
	lines := log.lines()
	if len(lines) != len(reports) {
		t.Fatalf("%d reports, expected %d: %q", len(lines), len(reports), lines)
	}
	for i, parts := range reports {
		for _, part := range parts {
			if !strings.Contains(lines[i], part) {
				t.Errorf("report %q does not say %q", lines[i], part)
			}
		}
	}
}

func TestASlowHolderIsReportedOnceWhileItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, a, b, log := newLogged(t)
		began := "TestASlowHolderIsReportedOnceWhileItHolds"
		txn, err := db.WriteTxn(t.Context(), b, a)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		for range 3 {
			waitToWrite(t, db, a)
		}
		waitToWrite(t, db, b)
		time.Sleep(699 * time.Millisecond)
		wantReports(t, log)
		time.Sleep(time.Millisecond)
		wantReports(t, log, []string{"held=1s", `tables="[a b]"`, "lock_test.go:", began})
		time.Sleep(time.Hour)
		txn.Abort()
		wantReports(t, log, nil)
	})
}

func TestAHolderFromBeforeTheFirstContentionIsReportedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _, _, log := newLogged(t)
		table := newTable(t, db, itemSchema("fresh"))
		txn, err := db.WriteTxn(t.Context(), table)
		if err != nil {
			t.Fatal(err)
		}
		waitToWrite(t, db, table)
		time.Sleep(time.Minute)
		txn.Abort()
		wantReports(t, log, []string{"held=1s", "tables=[fresh]", "unknown: nobody had waited for its tables before"})
	})
}

func TestWhoComesLateToASlowHolderReportsItAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, a, _, log := newLogged(t)
		go func() {
			_ = db.Update(t.Context(), func(*statedb.WriteTxn) error {
				time.Sleep(time.Minute)
				return nil
			}, a)
		}()
		time.Sleep(10 * time.Second)
		wantReports(t, log) // nobody is kept waiting
		waitToWrite(t, db, a)
		wantReports(t, log, []string{"held=10s", "table=a", "TestWhoComesLateToASlowHolderReportsItAtOnce"})
		time.Sleep(time.Hour)
	})
}

func TestAHolderThatItselfWaitsIsReportedWithWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, a, b, log := newLogged(t)
		txn, err := db.WriteTxn(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		waitToWrite(t, db, a, b) // holds a
		time.Sleep(500 * time.Millisecond)
		waitToWrite(t, db, a)
		time.Sleep(time.Second)
		txn.Abort()
		wantReports(t, log, nil, nil)
		if lines := log.lines(); slices.ContainsFunc(lines, func(l string) bool {
			return strings.Contains(l, "table=a") != strings.Contains(l, "waits_for=b")
		}) {
			t.Errorf("the report of a, and only that one, must say that its holder waits for b: %q", lines)
		}
	})
}

func TestManyShortHoldersAreNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, a, _, log := newLogged(t)
		for range 10 { // the last one waits for 8 s
			go func() {
				_ = db.Update(t.Context(), func(*statedb.WriteTxn) error {
					time.Sleep(900 * time.Millisecond)
					return nil
				}, a)
			}()
		}
		time.Sleep(time.Minute)
		wantReports(t, log)
	})
}

// TestManyWritersOfManyTablesDoNotDeadlock runs writers that name their tables
// in opposite orders and give up at any time. A deadlock ends in the test's
// time limit.
func TestManyWritersOfManyTablesDoNotDeadlock(t *testing.T) {
	const tableCount, writers, rounds = 100, 12, 60
	db := newDB()
	var tables []*statedb.RWTable[item]
	for i := range tableCount {
		tables = append(tables, newTable(t, db, statedb.Schema[item]{Name: fmt.Sprint("t", i), Primary: byID}))
	}
	var committed atomic.Int64
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for round := range rounds {
				chosen := choose(random, tables, w%2 == 0)
				ctx, cancel := context.WithCancel(t.Context())
				if round%3 == 0 {
					time.AfterFunc(time.Duration(random.IntN(300))*time.Microsecond, cancel)
				}
				n, err := countUp(ctx, db, chosen)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				committed.Add(n)
				cancel()
			}
		})
	}
	running.Wait()
	var total int64
	err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error { // no lock was left behind
		for _, table := range tables {
			row, _, _ := table.Get(txn, byID.Query("count"))
			total += int64(row.Number)
		}
		return nil
	}, metas(tables)...)
	if err != nil || total != committed.Load() {
		t.Errorf("the tables count %d, committed was %d (%v)", total, committed.Load(), err)
	}
}

// choose returns up to 30 tables, from low to high or from high to low.
func choose(random *rand.Rand, tables []*statedb.RWTable[item], descending bool) (chosen []*statedb.RWTable[item]) {
	first := random.IntN(len(tables))
	for i := range 1 + random.IntN(30) {
		chosen = append(chosen, tables[(first+i*7)%len(tables)])
	}
	slices.SortFunc(chosen, func(a, b *statedb.RWTable[item]) int { return strings.Compare(a.Name(), b.Name()) })
	if descending {
		slices.Reverse(chosen)
	}
	return chosen
}

func metas(tables []*statedb.RWTable[item]) (metas []statedb.TableMeta) {
	for _, table := range tables {
		metas = append(metas, table)
	}
	return metas
}

// countUp adds one to a row of each table and returns how many it has committed.
func countUp(ctx context.Context, db *statedb.DB, tables []*statedb.RWTable[item]) (committed int64, err error) {
	err = db.Update(ctx, func(txn *statedb.WriteTxn) error {
		for _, table := range tables {
			row, _, _ := table.Get(txn, byID.Query("count"))
			if _, _, err := table.Insert(txn, item{ID: "count", Number: row.Number + 1}); err != nil {
				return err
			}
		}
		return nil
	}, metas(tables)...)
	if err != nil {
		return 0, err
	}
	return int64(len(tables)), nil
}
