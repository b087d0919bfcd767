package engine

import (
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Stats is what there is to measure of a reconciler: totals since it was made, and
// how it stands now.
type Stats struct {
	// Incremental is how long operations took on rows that were not done, Full how
	// long full passes took, and Prune how long the target took to list what it has,
	// or to prune itself.
	Incremental, Full, Prune store.Durations
	// How many operations failed: on rows that were not done, of full passes (the
	// search for surplus included), and of these the searches for surplus alone.
	IncrementalErrors, FullErrors, PruneErrors uint64
	// OutOfSync is how many rows a full pass, or one that came in the time of the row
	// itself, found not to be what they were said to be, and how many surplus things it removed. Pruned is the latter alone.
	OutOfSync, Pruned uint64
	Retries           uint64 // operations that ran because the one before had failed
	// Drift is how many rows were repaired, or reported, because they differed from
	// what was observed of them.
	Drift uint64
	// Drifted is how many rows are known to differ from what is observed of them.
	Drifted int

	Errors   int // rows in error, failed deletes included
	Reasons  int // groups of these rows, as [Engine.FailureGroups] returns them
	Deleting int // rows that are gone from the table, and not yet from the target
	// Queue is what could run and waits for its turn, in each lane.
	Queue []ClassStats
	// Held is how many rows are kept from running, by what keeps them: paused,
	// limit, dependency, order and drift are always there.
	Held map[string]int
	// Delayed is how many rows wait for a time: for that of their next try, because
	// their target wants to run again, or because they are still being changed.
	Delayed int

	Workers int // operations that may run at once
	Running int // operations that do, those that are stuck included
	Stuck   int // operations that have not returned long after their deadline
	// LongestRunning is for how long the oldest of the running operations has been.
	LongestRunning time.Duration
	LastSuccess    time.Time // zero: never
}

// ClassStats is how it stands with one of the lanes that rows wait in: change,
// manual, retry and refresh.
type ClassStats struct {
	Class string
	// Depth is how many rows wait. In lane change they are at most so many: changes
	// that were not read yet count each, and some turn out to need nothing.
	Depth int
	// Oldest is how long the first of them has had something to be done.
	Oldest time.Duration
}

// Stats returns how the reconciler stands. It neither reads the table nor waits for
// the reconciler, so that it answers also when that hangs. Before Run, and until the
// target is ready, nothing is queued.
func (r *Engine) Stats() Stats {
	now, last := time.Now(), r.board.get()
	m := &last.meters
	s := Stats{
		Incremental: m.incremental.stats(), IncrementalErrors: m.incrementalErrors,
		Full: m.full.stats(), FullErrors: m.fullErrors,
		Prune: m.prune.stats(), PruneErrors: m.pruneErrors,
		OutOfSync: m.outOfSync, Pruned: m.pruned, Retries: m.retries, Drift: m.drift,

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

// queue says how long the lanes are, with what has come into the feed since.
func (s *standing) queue(now time.Time) []ClassStats {
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
