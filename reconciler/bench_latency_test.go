package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// BenchmarkChangeDuringFullPass changes one row at a time while full passes of
// 100,000 rows follow each other, and reports how long it takes from the commit of
// the change until its status is done.
func BenchmarkChangeDuringFullPass(b *testing.B) {
	n := min(*benchRows, 100_000)
	var times []time.Duration
	passes := 0
	for b.Loop() {
		d := newBed(b, randomIDs, statusIndex)
		d.start(reconciler.Params[smallRow]{})
		d.reconcile(n, benchBatch, 1)
		d.waitForTable() // with the first full pass
		passes -= int(d.r.Stats().Full.Count)
		for i := range 1000 {
			row := i * 7919 % n
			d.r.FullPass() // the next one, if one is under way
			d.write(row, row+1, 2+i)
			began := time.Now()
			d.waitForRow(row)
			times = append(times, time.Since(began))
		}
		passes += int(d.r.Stats().Full.Count)
		d.stop(n, 0)
	}
	b.ReportMetric(float64(passes)/float64(b.N), "passes")
	reportTimes(b, times)
}

// BenchmarkRetryUnderSaturation has a row fail every time, to be retried after
// 10 ms, while the others are changed as fast as the table takes it, and reports by
// how much the retries are late.
func BenchmarkRetryUnderSaturation(b *testing.B) {
	const samples = 300
	n := min(*benchRows, 100_000)
	var times []time.Duration
	var changed, pending int
	for b.Loop() {
		d := newBed(b, randomIDs, statusIndex)
		target := &alwaysFailing{id: d.ids(0), backoff: 10 * time.Millisecond, samples: samples, enough: make(chan struct{})}
		d.start(reconciler.Params[smallRow]{Target: target})
		d.write(0, 1, 1)
		changed += d.saturate(n, target.enough)
		pending += d.r.Summary(d.db.ReadTxn()).Pending
		d.stop(n, n)
		times = append(times, target.late...)
	}
	b.ReportMetric(float64(changed)/b.Elapsed().Seconds(), "changes/s")
	b.ReportMetric(float64(pending)/float64(b.N), "backlog-rows")
	reportTimes(b, times)
}

// saturate changes rows 1 to n over and over, and returns how many changes that
// were.
func (d *bed) saturate(n int, enough <-chan struct{}) (changed int) {
	for want := 1; ; want++ {
		for from := 1; from < n; from += benchBatch {
			to := min(from+benchBatch, n)
			d.write(from, to, want)
			changed += to - from
			select {
			case <-enough:
				if want > 1 {
					return changed
				}
			case <-d.tooLate:
				d.b.Fatal("too few retries")
			default:
			}
		}
	}
}

var errFailing = errors.New("this row always fails")

// alwaysFailing is a target that fails for one row and notes by how much its retries
// are late.
type alwaysFailing struct {
	idle[smallRow]
	id      uint64
	backoff time.Duration
	samples int

	due    time.Time
	late   []time.Duration
	enough chan struct{} // closed when there are as many samples as wanted
}

func (f *alwaysFailing) Update(_ context.Context, _ statedb.ReadTxn, row smallRow) (reconciler.Result, error) {
	if row.id() != f.id {
		return reconciler.Result{}, nil
	}
	now := time.Now()
	if !f.due.IsZero() && len(f.late) < f.samples {
		if f.late = append(f.late, now.Sub(f.due)); len(f.late) == f.samples {
			close(f.enough)
		}
	}
	f.due = now.Add(f.backoff)
	return reconciler.Result{}, reconciler.RetryAfter(f.backoff, errFailing)
}
