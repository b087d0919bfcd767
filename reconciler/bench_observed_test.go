package reconciler_test

import (
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// BenchmarkObserved reports what it costs to compare rows with what is observed of
// them: when as many observed rows arrive, and when the rows have become done and
// have been compared once more. heap-B/row is what all of it occupies then, the
// tables included.
func BenchmarkObserved(b *testing.B) {
	n := *benchRows
	for _, compared := range []bool{false, true} {
		name := map[bool]string{false: "nothing", true: "all"}[compared]
		b.Run(name, func(b *testing.B) {
			var s spent
			for b.Loop() {
				before := heap()
				d := newBed(b, sequentialIDs, withoutIndex)
				seen := d.seenTable("seen")
				p := reconciler.Params[smallRow]{}
				if compared {
					p.Observed = observedIn(seen)
				}
				p.Config.Drift.Settle = time.Second / 2
				d.start(p)
				s.measure(b, n, func() {
					d.see(seen, sequentialIDs, n, benchBatch, 1)
					d.reconcile(n, benchBatch, 1)
					<-time.After(time.Second) // until all were compared
				})
				b.ReportMetric(perRow(before, heap(), n), "heap-B/row")
				d.stop(n, 0)
			}
			s.report(b)
		})
	}
}
