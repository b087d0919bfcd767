package engine

import (
	"math/bits"
	"sync"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Stats are the measurements of a reconciler: totals since it was made, and its current state.
type Stats struct {
	Totals
	// Drifted is how many rows are known to differ from the observed state.
	Drifted int

	Errors   int // rows in error, including failed deletes
	Reasons  int // groups of these rows, as [Engine.FailureGroups] returns them
	Deleting int // rows gone from the table but not yet from the target
	// Queue has the rows ready to run, by priority class.
	Queue []ClassStats
	// Held is how many rows are held, by reason. The keys paused, limit, dependency, order
	// and drift are always present.
	Held map[string]int
	// Delayed is how many rows are scheduled for later: for a retry, because the target asked
	// to run again, or because of debouncing.
	Delayed int

	Workers int // operations that may run concurrently
	Running int // operations running now, including stuck ones
	Stuck   int // operations that have not returned long after their deadline
	// LongestRunning is how long the oldest running operation has been running.
	LongestRunning time.Duration
	LastSuccess    time.Time // zero: never
}

// Totals are counted since the reconciler was made.
type Totals struct {
	// Durations of operations on rows that were not done, of full passes, and of the
	// target's Observe or Prune.
	Incremental, Full, Prune store.Durations
	// Failed operations: on rows that were not done, in full passes (including searches
	// for orphans), and the failed searches for orphans alone.
	IncrementalErrors, FullErrors, PruneErrors uint64
	// OutOfSync counts the rows that a full pass or a refresh found to be out of sync with
	// the target, and the orphans that were removed. Pruned counts the orphans alone.
	OutOfSync, Pruned uint64
	Retries           uint64 // operations that ran because the previous one failed
	// Drift counts rows repaired or reported because they differed from the observed state.
	Drift uint64
}

// ClassStats describes the rows ready in one priority class: change, manual, retry or refresh.
type ClassStats struct {
	Class string
	// Depth is how many rows are ready. For class change it is an upper bound: every unread
	// change counts, and some will need nothing.
	Depth int
	// Oldest is how long the first of them has been pending.
	Oldest time.Duration
}

// Stats returns the current measurements. It neither reads the table nor waits for the
// reconciler, so it works even when that hangs. Nothing is queued until the target is ready.
func (r *Engine) Stats() Stats {
	now, last := time.Now(), r.stats.get()
	m := &last.metrics
	s := Stats{
		Totals: Totals{
			Incremental: m.incremental.stats(), IncrementalErrors: m.incrementalErrors,
			Full: m.full.stats(), FullErrors: m.fullErrors,
			Prune: m.prune.stats(), PruneErrors: m.pruneErrors,
			OutOfSync: m.outOfSync, Pruned: m.pruned, Retries: m.retries, Drift: m.drift,
		},
		Errors: last.errors, Reasons: last.reasons, Deleting: int(r.deleting.Load()), Delayed: last.delayed, Held: map[string]int{},
		Drifted: r.drifted.len(), Workers: r.p.Config.Workers, Stuck: last.stuck,
	}
	for stage := workqueue.Paused; stage < workqueue.Stages; stage++ {
		s.Held[stage.String()] = last.held[stage]
	}
	s.Queue = last.queue(now)
	for _, w := range last.workers {
		if began, runs := w.Began(); runs {
			s.Running++
			s.LongestRunning = max(s.LongestRunning, now.Sub(began))
		}
	}
	if at := r.lastSuccess.Load(); at != 0 {
		s.LastSuccess = time.Unix(0, at)
	}
	return s
}

// queue returns the stats of the classes, including what has entered the feed since.
func (s *statsSnapshot) queue(now time.Time) []ClassStats {
	stats := make([]ClassStats, workqueue.Classes)
	for i, state := range s.classes {
		stats[i] = ClassStats{Class: workqueue.Class(i).String(), Depth: state.depth}
		if !state.oldest.IsZero() {
			stats[i].Oldest = max(0, now.Sub(state.oldest))
		}
	}
	if s.cursor != nil {
		change := &stats[workqueue.Changes]
		change.Depth += s.cursor.Lag()
		change.Oldest = max(change.Oldest, s.cursor.LagTime())
	}
	return stats
}

// metrics are the loop's counters. They are published as a copy whenever the loop goes to
// sleep, so that counting needs neither locks nor atomics.
type metrics struct {
	incremental, full, prune                   durations
	incrementalErrors, fullErrors, pruneErrors uint64
	outOfSync, pruned, retries, drift          uint64
}

// The histogram bounds: each is four times the previous one, up to 11 minutes.
const (
	firstBound = 10 * time.Microsecond
	bounds     = 14
)

// durations is a histogram. The last count is of those beyond all bounds.
type durations struct {
	counts [bounds + 1]uint64
	sum    time.Duration
}

func (d *durations) observe(took time.Duration) {
	d.sum += took
	times := uint64(max(0, took-1) / firstBound) // bounds are inclusive
	d.counts[min((bits.Len64(times)+1)/2, bounds)]++
}

func (d *durations) stats() store.Durations {
	s := store.Durations{Sum: d.sum, Within: make(map[time.Duration]uint64, bounds)}
	for i, n := range d.counts {
		s.Count += n
		if i < bounds {
			s.Within[firstBound<<(2*i)] = s.Count
		}
	}
	return s
}

// statsSnapshot is the state of a reconciler when its loop last went to sleep. It has times
// rather than ages, which would go stale.
type statsSnapshot struct {
	metrics metrics
	classes [workqueue.Classes]classState
	held    [workqueue.Stages]int // items by stage, from Debounce on
	delayed int
	errors  int
	reasons int // groups of failures
	stuck   int
	workers []*pool.Worker // only Began may be called
	cursor  *store.Cursor  // for its lag; nil once closed
}

// classState is how many rows are ready in a priority class, and since when.
type classState struct {
	depth  int
	oldest time.Time
}

func (s *classState) add(n int, since time.Time) {
	s.depth += n
	s.oldest = earliest(s.oldest, since)
}

// latestStats is the last snapshot that the loop has published.
type latestStats struct {
	mu   sync.Mutex
	last statsSnapshot
}

func (b *latestStats) set(s *statsSnapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = *s
}

func (b *latestStats) get() statsSnapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// publish makes a new snapshot available to Stats.
func (l *loop) publish() {
	s := statsSnapshot{
		metrics: l.metrics, delayed: l.queue.Timed() - l.queue.In(workqueue.Refresh),
		stuck: len(l.pool.Stuck()), workers: l.pool.All(), cursor: l.cursor,
	}
	s.errors, s.reasons = l.r.failures.count()
	for stage := workqueue.Debounce; stage < workqueue.Stages; stage++ {
		s.held[stage] = l.queue.In(stage)
	}
	l.measureClasses(&s.classes)
	l.r.stats.set(&s)
}

// retract drops what was published, except for what outlasts the run.
func (l *loop) retract() {
	l.r.drifted.clear()
	s := statsSnapshot{metrics: l.metrics, stuck: len(l.pool.Stuck())}
	s.errors, s.reasons = l.r.failures.count()
	l.r.stats.set(&s)
	l.reportFailures()
	l.r.failures.clear()
}

// measureClasses counts the rows ready to run, wherever they are: in the queue, in the round,
// in a worker's batch, or still in the feed's listing of the table.
func (l *loop) measureClasses(states *[workqueue.Classes]classState) {
	for i := range states {
		if n, first := l.queue.Ready(workqueue.Class(i)); first != nil {
			states[i].add(n, first.Since)
		}
	}
	change := &states[workqueue.Changes]
	if l.round.more > 0 {
		change.add(l.round.more, l.round.at)
	}
	for _, w := range l.pool.Workers() {
		b := w.Batch
		if b == nil || b.Asks() {
			continue
		}
		if remaining := b.Remaining(); len(remaining) > 0 {
			states[b.Class].add(len(remaining), l.waitsSince(b, &remaining[0]))
		}
	}
	if !l.listing.since.IsZero() {
		change.add(max(0, l.r.p.Table.Len(l.r.p.DB.ReadTxn())-l.listing.rows), l.listing.since)
	}
}

// waitsSince returns since when a row in a worker's batch has been pending.
func (l *loop) waitsSince(b *pool.Batch, out *pool.Task) time.Time {
	if out.Item == nil {
		return l.round.at
	}
	return earliest(out.Item.Since, b.At)
}

// listing is the progress of the feed in listing the table.
type listing struct {
	rows  int
	since time.Time // zero if it is not listing
}

// follow records that changes were taken from the feed. A listing leaves its revision unchanged.
func (s *listing) follow(taken int, before, after store.Revision, now time.Time) {
	switch {
	case taken == 0 || before != after:
		*s = listing{}
	case s.since.IsZero():
		*s = listing{rows: taken, since: now}
	default:
		s.rows += taken
	}
}

// count updates the metrics for an operation that has ended.
func (l *loop) count(out *pool.Task) {
	m := &l.metrics
	if out.Item != nil && out.Item.Ran&workqueue.Retry != 0 {
		m.retries++
	}
	switch {
	case !out.Full:
		m.incremental.observe(out.Took)
		if out.Err != nil {
			m.incrementalErrors++
		} else if out.Was == Done && out.Result.Changed && out.Item != nil && out.Item.Ran&workqueue.Elapsed != 0 {
			m.outOfSync++
		}
	case out.Err != nil:
		m.fullErrors++
	case out.Kind == pool.Delete:
		m.outOfSync++
		m.pruned++
	case out.Result.Changed && out.Was == Done:
		m.outOfSync++
	}
}
