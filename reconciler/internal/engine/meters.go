package engine

import (
	"math/bits"
	"sync"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// meters is what the deciding goroutine counts. It is copied for others when that
// goroutine goes to sleep, so that counting takes neither locks nor atomics.
type meters struct {
	incremental, full, prune                   durations
	incrementalErrors, fullErrors, pruneErrors uint64
	outOfSync, pruned, retries, drift          uint64
}

// The bounds of durations: each is four times the one before, up to 11 minutes.
const (
	firstBound = 10 * time.Microsecond
	bounds     = 14
)

// durations is a distribution of durations. The last count is of those that are
// longer than all bounds.
type durations struct {
	counts [bounds + 1]uint64
	sum    time.Duration
}

func (d *durations) observe(took time.Duration) {
	d.sum += took
	times := uint64(max(0, took-1) / firstBound) // so that a bound is within itself
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

// standing is how it stood with a reconciler when its deciding goroutine last went
// to sleep. It has times rather than ages, which grow while nobody looks.
type standing struct {
	meters  meters
	classes [workqueue.Classes]classState
	held    [workqueue.Stages]int // items in each stage of waiting
	delayed int
	errors  int
	reasons int // groups of failures
	stuck   int
	workers []*pool.Worker // of them only what is safe to share
	cursor  *store.Cursor  // for its lag; nil: it is closed
}

// classState is how many rows wait in a priority class, and since when the first of them does.
type classState struct {
	depth  int
	oldest time.Time
}

func (s *classState) add(n int, since time.Time) {
	s.depth += n
	s.oldest = earliest(s.oldest, since)
}

// board is where the deciding goroutine shows how it stands.
type board struct {
	mu   sync.Mutex
	last standing
}

func (b *board) set(s *standing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = *s
}

func (b *board) get() standing {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// publish lets others know how it stands.
func (l *loop) publish() {
	s := standing{
		meters: l.meters, delayed: l.queue.Timed() - l.queue.In(workqueue.Refresh),
		stuck: len(l.pool.Stuck()), workers: l.pool.All(), cursor: l.cursor,
	}
	s.errors, s.reasons = l.r.failures.count()
	for stage := workqueue.Debounce; stage < workqueue.Stages; stage++ {
		s.held[stage] = l.queue.In(stage)
	}
	l.measureClasses(&s.classes)
	l.r.board.set(&s)
}

// retract leaves of what was published only what outlasts the run.
func (l *loop) retract() {
	l.r.drifted.clear()
	s := standing{meters: l.meters, stuck: len(l.pool.Stuck())}
	s.errors, s.reasons = l.r.failures.count()
	l.r.board.set(&s)
	l.reportFailures()
	l.r.failures.clear()
}

// measureClasses counts what waits for its turn, wherever it does: in the lanes, in
// the round, in the hands of a worker, and in a listing of the table.
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

// waitsSince returns since when a row waits that a worker has been given.
func (l *loop) waitsSince(b *pool.Batch, out *pool.Task) time.Time {
	if out.Item == nil {
		return l.round.at
	}
	return earliest(out.Item.Since, b.At)
}

// listing is how far the feed has come in listing the table.
type listing struct {
	rows  int
	since time.Time // zero: it does not
}

// follow notes how many changes were taken from the feed, when it was at a revision
// before, which a listing leaves as it is.
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

// count measures an operation that has ended.
func (l *loop) count(out *pool.Task) {
	m := &l.meters
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
