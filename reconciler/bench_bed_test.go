package reconciler_test

import (
	"context"
	"flag"
	"iter"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

var benchRows = flag.Int("rows", 50_000, "how many rows the benchmarks reconcile")

// benchBatch is how many rows a transaction of the benchmarks writes.
const benchBatch = 1000

// smallRow is a row of 32 bytes.
type smallRow struct {
	Spec   uint64 // the id, and in the lowest wantBits what is wanted
	Status reconciler.Status
}

const wantBits = 16

func newSmallRow(id uint64, want int) smallRow {
	return smallRow{Spec: id<<wantBits | uint64(want)&(1<<wantBits-1)}
}

func (r smallRow) id() uint64                              { return r.Spec >> wantBits }
func (r smallRow) GetStatus() reconciler.Status            { return r.Status }
func (r smallRow) WithStatus(s reconciler.Status) smallRow { r.Status = s; return r }

var bySmallID = statedb.NewIndex("id", smallRow.id)

// ids numbers the rows of a benchmark: i counts them in the order of writing.
type ids func(i int) uint64

func sequentialIDs(i int) uint64 { return uint64(i) }

// randomIDs spreads the numbers over 48 bits. Each step can be undone, so that no
// two ids are the same.
func randomIDs(i int) uint64 {
	const mask = 1<<48 - 1
	id := uint64(i)
	for range 2 {
		id = (id*0x9e3779b97f4b + 0x632be59bd9b5) & mask
		id ^= id >> 24
	}
	return id
}

// idle is a target that has nothing to do.
type idle[Obj any] struct{}

func (idle[Obj]) Init(context.Context) error { return nil }

func (idle[Obj]) Update(context.Context, statedb.ReadTxn, Obj) (reconciler.Result, error) {
	return reconciler.Result{}, nil
}

func (idle[Obj]) Delete(context.Context, statedb.ReadTxn, Obj) error { return nil }

func (idle[Obj]) Prune(context.Context, statedb.ReadTxn, iter.Seq2[Obj, statedb.Revision]) (int, error) {
	return 0, nil
}

// bed is a table of small rows that a benchmark reconciles.
type bed struct {
	b       testing.TB
	tooLate <-chan time.Time
	ids     ids
	db      *statedb.DB
	table   *statedb.RWTable[smallRow]

	r      *reconciler.Reconciler[smallRow]
	cancel context.CancelFunc
	ended  chan error
}

func newBed(b testing.TB, ids ids, index indexed) *bed {
	b.Helper()
	schema := reconciler.Reconciled(statedb.Schema[smallRow]{Name: "rows", Primary: bySmallID})
	if index == withoutIndex {
		schema.Secondary = nil
	}
	db := statedb.New()
	return &bed{b: b, tooLate: time.After(5 * time.Minute), ids: ids, db: db, table: must(statedb.NewTable(db, schema))}
}

// indexed is whether a table has the status index.
type indexed bool

const (
	withoutIndex indexed = false
	statusIndex  indexed = true
)

// start runs a reconciler of the table with the other parameters from p.
func (d *bed) start(p reconciler.Params[smallRow]) {
	d.b.Helper()
	p.DB, p.Table = d.db, d.table
	if p.Target == nil {
		p.Target = idle[smallRow]{}
	}
	if p.Config.FullInterval == 0 {
		p.Config.FullInterval = -1
	}
	ctx, cancel := context.WithCancel(d.b.Context())
	d.r, d.cancel, d.ended = must(reconciler.New(p)), cancel, make(chan error, 1)
	go func() { d.ended <- d.r.Run(ctx) }()
}

// stop ends the reconciler and checks that all rows but some are done.
func (d *bed) stop(rows, notDone int) {
	d.b.Helper()
	d.cancel()
	if err := <-d.ended; err != nil {
		d.b.Fatal(err)
	}
	if s := d.r.Summary(d.db.ReadTxn()); s.Rows != rows || s.Done < rows-notDone {
		d.b.Fatalf("%d of %d rows are done, want %d of %d", s.Done, s.Rows, rows-notDone, rows)
	}
}

// write writes rows [from, to) in one transaction.
func (d *bed) write(from, to, want int) {
	// No Helper: it costs as much as a fifth of a small transaction.
	err := d.db.Update(d.b.Context(), func(txn *statedb.WriteTxn) error {
		for i := from; i < to; i++ {
			if _, _, err := d.table.Insert(txn, newSmallRow(d.ids(i), want)); err != nil {
				return err
			}
		}
		return nil
	}, d.table)
	if err != nil {
		d.b.Fatal(err)
	}
}

// reconcile writes n rows, each new or with a value it did not have, and waits
// until each has got its status.
func (d *bed) reconcile(n, batch, want int) {
	d.b.Helper()
	before := d.table.Revision(d.db.ReadTxn())
	for from := 0; from < n; from += batch {
		d.write(from, min(from+batch, n), want)
	}
	d.waitFor(before + statedb.Revision(2*n)) // a spec and a status each
}

func (d *bed) waitFor(revision statedb.Revision) {
	d.b.Helper()
	for {
		txn := d.db.ReadTxn()
		if d.table.Revision(txn) >= revision {
			return
		}
		_, changed := d.table.AllWatch(txn)
		d.wait(changed, "status of all rows")
	}
}

// waitForTable waits until all is done, orphans included.
func (d *bed) waitForTable() {
	d.b.Helper()
	ctx, cancel := context.WithTimeout(d.b.Context(), 5*time.Minute)
	defer cancel()
	if err := d.r.WaitTable(ctx); err != nil {
		d.b.Fatal(err)
	}
}

// waitForRow waits until row i has got its status.
func (d *bed) waitForRow(i int) {
	d.b.Helper()
	for {
		row, _, changed, _ := d.table.GetWatch(d.db.ReadTxn(), bySmallID.Query(d.ids(i)))
		if row.Status.Kind() == reconciler.Done {
			return
		}
		d.wait(changed, "status of a row")
	}
}

func (d *bed) wait(ready <-chan struct{}, what string) {
	d.b.Helper()
	select {
	case <-ready:
	case err := <-d.ended:
		d.b.Fatalf("the reconciler ended: %v", err)
	case <-d.tooLate:
		d.b.Fatalf("waited too long: %s", what)
	}
}

// spent adds up what the parts of a benchmark took that count.
type spent struct {
	rows           int
	time, cpu      time.Duration
	bytes, mallocs uint64
}

// measure runs fn, which is about some rows.
func (s *spent) measure(b testing.TB, rows int, fn func()) {
	b.Helper()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, cpu := time.Now(), cpuTime(b)
	fn()
	s.cpu += cpuTime(b) - cpu
	s.time += time.Since(began)
	runtime.ReadMemStats(&after)
	s.rows += rows
	s.bytes += after.TotalAlloc - before.TotalAlloc
	s.mallocs += after.Mallocs - before.Mallocs
}

func (s *spent) report(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(s.rows)/s.time.Seconds(), "rows/s")
	b.ReportMetric(float64(s.cpu)/float64(s.rows), "cpu-ns/row")
	b.ReportMetric(float64(s.bytes)/float64(s.rows), "B/row")
	b.ReportMetric(float64(s.mallocs)/float64(s.rows), "allocs/row")
}

// cpuTime is the CPU time that the process has used, which is more reliable than the
// clock while other programs run.
func cpuTime(b testing.TB) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// heap returns the bytes in use, after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the first may have left what was still being swept
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// reportTimes reports the median and the worst of some times.
func reportTimes(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	for _, point := range []struct {
		unit string
		at   int // percent
	}{{"p50-ns", 50}, {"p99-ns", 99}, {"max-ns", 100}} {
		i := min(len(times)*point.at/100, len(times)-1)
		b.ReportMetric(float64(times[i].Nanoseconds()), point.unit)
	}
}
