package reconciler_test

import (
	"testing"

	"github.com/statehive/statehive/reconciler"
)

// The benchmarks reconcile rows of 32 bytes with a target that does nothing. A
// row counts once its status is in the table. Most are meant for -benchtime=1x,
// with -rows=1000000 for the figures of the documentation; an operation of
// them is all of the rows, so the metrics by row are those to look at.

// benchCases are tables to reconcile, and how many workers do it.
var benchCases = []struct {
	name    string
	ids     ids
	index   indexed
	workers int
}{
	{"sequential", sequentialIDs, withoutIndex, 1},
	{"sequential-index", sequentialIDs, statusIndex, 1},
	{"random", randomIDs, withoutIndex, 1},
	{"random-index", randomIDs, statusIndex, 1},
	{"sequential-4workers", sequentialIDs, withoutIndex, 4},
}

// BenchmarkBatches writes rows in batches of 1,000.
func BenchmarkBatches(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			benchWrites(b, newBedFor(c.ids, c.index), c.workers, *benchRows, benchBatch)
		})
	}
}

// BenchmarkOneByOne writes rows in a transaction each.
func BenchmarkOneByOne(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			benchWrites(b, newBedFor(c.ids, c.index), c.workers, min(*benchRows, 100_000), 1)
		})
	}
}

func newBedFor(ids ids, index indexed) func(*testing.B) *bed {
	return func(b *testing.B) *bed { return newBed(b, ids, index) }
}

func benchWrites(b *testing.B, newBed func(*testing.B) *bed, workers, n, batch int) {
	b.Helper()
	var s spent
	for b.Loop() {
		d := newBed(b)
		d.start(reconciler.Params[smallRow]{Config: reconciler.Config{Workers: workers}})
		s.measure(b, n, func() { d.reconcile(n, batch, 1) })
		d.stop(n, 0)
	}
	s.report(b)
}

// BenchmarkHeap reports what a row occupies: table and reconciler together, fresh
// and after each row was replaced twice.
func BenchmarkHeap(b *testing.B) {
	for _, c := range benchCases[:4] {
		b.Run(c.name, func(b *testing.B) {
			n := *benchRows
			for b.Loop() {
				before := heap()
				d := newBed(b, c.ids, c.index)
				d.start(reconciler.Params[smallRow]{})
				d.reconcile(n, benchBatch, 1)
				fresh := heap()
				d.reconcile(n, benchBatch, 2)
				d.reconcile(n, benchBatch, 3)
				churned := heap()
				b.ReportMetric(perRow(before, fresh, n), "fresh-B/row")
				b.ReportMetric(perRow(before, churned, n), "churned-B/row")
				d.stop(n, 0)
			}
		})
	}
}

func perRow(before, after uint64, rows int) float64 {
	return (float64(after) - float64(before)) / float64(rows)
}

// BenchmarkStart starts a reconciler over rows that are done already, until it
// has read them all and the target was pruned.
func BenchmarkStart(b *testing.B) {
	n := *benchRows
	var s spent
	for b.Loop() {
		d := newBed(b, randomIDs, statusIndex)
		d.start(reconciler.Params[smallRow]{})
		d.reconcile(n, benchBatch, 1)
		last := d.last(n)
		d.stop(n, 0)
		s.measure(b, n, func() {
			d.start(reconciler.Params[smallRow]{})
			d.waitForTable() // with the first full pass
			// Its change is read when the listing of all others is over.
			d.write(last, last+1, 2)
			d.waitForRow(last)
		})
		d.stop(n, 0)
	}
	s.report(b)
}

// last returns which of the first n rows has the highest id.
func (d *bed) last(n int) int {
	last := 0
	for i := range n {
		if d.ids(i) > d.ids(last) {
			last = i
		}
	}
	return last
}

func TestBenchmarksUseDifferentIDs(t *testing.T) {
	seen := map[uint64]bool{}
	for i := range 100_000 {
		id := newSmallRow(randomIDs(i), i).id()
		if id != randomIDs(i) || seen[id] {
			t.Fatalf("id %x of row %d is not its own", id, i)
		}
		seen[id] = true
	}
}

func TestBenchmarksReconcileSmallRows(t *testing.T) {
	const n = 2 * benchBatch
	var s spent
	s.measure(t, n, func() {
		d := newBed(t, randomIDs, statusIndex)
		d.start(reconciler.Params[smallRow]{})
		d.reconcile(n, benchBatch, 1)
		d.reconcile(n, benchBatch, 2)
		d.stop(n, 0)
	})
	if s.rows != n || s.time <= 0 || s.mallocs == 0 || s.bytes == 0 {
		t.Errorf("measured %+v", s)
	}
}
