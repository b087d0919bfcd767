package engine

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/backoff"
	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// fullSlice is how many rows of a full pass are made ready at a time.
const fullSlice = 64

// fullScan is how many rows a full pass checks before the loop reads changes again.
const fullScan = 4096

// drainLimit is how long the first attempt to prune keeps workers idle, waiting for running
// operations to end.
const drainLimit = time.Second

var errBusy = errors.New("target is too busy to be asked: an operation takes long")

type fullPhase uint8

const (
	fullIdle    fullPhase = iota
	fullUpdates           // all rows are being applied
	fullOrphans           // the target is listing what exists
	fullCompare           // the listing is being compared with the table
	fullDeletes           // the orphans are being removed
)

// fullPass is the full pass under way, if any.
type fullPass struct {
	phase       fullPhase
	whole       bool // applies all rows, not just pending ones
	began       time.Time
	last        []byte            // the rows up to this one have been checked
	started     bool              // last is set
	again       bool              // the row last itself must be checked again
	outstanding int               // items that the pass waits for
	observed    []*store.Entry    // existing objects that have not been compared yet
	drainUntil  time.Time         // workers are kept idle until then; zero: they are not
	orphans     []*workqueue.Item // the orphans found so far
	asked       bool              // the target is being asked for orphans
	gone        map[string]bool   // the rows deleted since the target was asked
}

// fullPlan is the schedule of full passes.
type fullPlan struct {
	due time.Time // the next pass over all rows and orphans; zero: never
	// searchPending reports that a search for orphans alone is pending: at start, where the
	// feed delivers all rows anyway, and after a search that could not be made or has failed.
	searchPending bool
	attempts      int       // failed searches for orphans in a row
	failing       time.Time // since the first of them
	after         time.Time // no search before
	err           error     // of the last one
}

func (l *loop) nextFull(now time.Time) time.Time {
	interval := l.r.p.Config.FullInterval
	if interval < 0 {
		return time.Time{}
	}
	return now.Add(backoff.Jitter(interval, 0.1, l.r.random))
}

// startFull begins a full pass when one is due.
func (l *loop) startFull(now time.Time) {
	whole := !l.plan.due.IsZero() && !now.Before(l.plan.due)
	switch {
	case l.full.phase != fullIdle:
		return
	case whole:
		l.plan.due = l.nextFull(now)
	case !l.plan.searchPending || l.held || now.Before(l.plan.after):
		return
	}
	l.full = fullPass{phase: fullUpdates, whole: whole, began: now}
	if whole {
		l.enqueueDeletes()
	}
}

// enqueueDeletes makes the full pass retry every failed delete: their rows are not in the table,
// and the target may be unable to observe them.
func (l *loop) enqueueDeletes() {
	var failed []*workqueue.Item
	for _, it := range l.queue.Items {
		if it.Deleting && it.Idle() {
			failed = append(failed, it)
		}
	}
	slices.SortFunc(failed, func(a, b *workqueue.Item) int { return cmp.Compare(a.Key, b.Key) })
	for _, it := range failed {
		l.joinFull(it)
		l.enqueue(it, workqueue.Refreshes, workqueue.FullPass, l.full.began)
	}
}

// advanceFull advances the full pass by a slice of rows once the previous slice is complete.
// All rows are attempted before orphans are removed.
func (l *loop) advanceFull(now time.Time) {
	l.startFull(now)
	for l.full.outstanding == 0 && l.stepFull(now) {
	}
}

// stepFull performs the next step, and reports whether another one follows immediately.
func (l *loop) stepFull(now time.Time) (more bool) {
	switch before := l.full.phase; before {
	case fullUpdates:
		if l.enqueueSlice(now) {
			return false
		}
		l.full.phase = fullOrphans
		return true
	case fullCompare:
		l.compareSlice(now)
		return l.full.phase != before
	case fullDeletes:
		l.r.succeeded(now)
		l.waiters.orphansSearched(!l.plan.searchPending)
		l.endFull(now)
		return false
	default:
		return false
	}
}

// moving reports whether the full pass has rows to check and waits for nothing.
func (f *fullPass) moving() bool {
	return f.outstanding == 0 && (f.phase == fullUpdates || f.phase == fullCompare)
}

// enqueueSlice makes the next rows ready, and reports whether there may be more. Each slice is of
// the newest snapshot, so that rows done in the meantime are not done twice.
func (l *loop) enqueueSlice(now time.Time) (more bool) {
	txn, slice, look := l.r.p.DB.ReadTxn(), fullSlice, fullScan
	for e := range l.full.rest(l.r.p.Table, txn) {
		if look--; look == 0 {
			l.full.last, l.full.started = e.Key(), true
			l.full.again = true // this row itself has not been checked yet
			return true
		}
		if !l.full.whole && l.r.status(e).Kind() == Done {
			continue
		}
		if l.full.started && !l.full.again && bytes.Equal(e.Key(), l.full.last) {
			continue
		}
		l.full.last, l.full.started, l.full.again = e.Key(), true, false
		l.enqueueFull(e, now)
		if slice--; slice == 0 {
			return true
		}
	}
	return false
}

// rest yields the rows from the last checked one on.
func (f *fullPass) rest(table *store.Table, txn store.ReadTxn) iter.Seq[*store.Entry] {
	if f.started {
		return table.LowerBound(txn, store.Query{Index: table.Primary(), Key: f.last}, nil).Entries()
	}
	return table.All(txn, nil).Entries()
}

// enqueueFull makes the full pass wait for an operation on a row: a running one or a new one.
func (l *loop) enqueueFull(e *store.Entry, now time.Time) {
	it := l.queue.Get(keyOf(e))
	attempted := it.Stage() == workqueue.Committing || it.Idle() && (it.Err != nil || !it.Due().IsZero())
	if attempted && (!l.full.whole || it.Stage() == workqueue.Committing) {
		return
	}
	if !it.Stage().InHand() {
		if !it.Differs && l.r.status(e).Kind() == Pending {
			l.order.Changed(e) // the feed may have lost that
		}
		it.Entry = e
		it.Force = true
		l.enqueue(it, workqueue.Refreshes, workqueue.FullPass, now)
	}
	l.joinFull(it)
}

func (l *loop) joinFull(it *workqueue.Item) {
	if !it.FullPass {
		it.FullPass = true
		l.full.outstanding++
	}
}

// leaveFull is called for each item that has run or was dropped.
func (l *loop) leaveFull(it *workqueue.Item) {
	if it.FullPass {
		it.FullPass = false
		l.full.outstanding--
	}
}

// wantsOrphans reports whether to ask the target for orphans now.
func (f *fullPass) wantsOrphans() bool {
	return f.phase == fullOrphans && !f.asked && f.outstanding == 0
}

// askForOrphans asks the target what exists, or to prune. While a source is incomplete, a row
// missing from the table may be desired, so the search is postponed.
func (l *loop) askForOrphans(now time.Time) {
	if !l.full.wantsOrphans() {
		return
	}
	op, txn := pool.Task{Kind: pool.Observe}, l.r.p.DB.ReadTxn()
	w := l.pool.Idle()
	switch {
	case w == nil:
		return
	case l.stillAsking():
		l.fullFailed(errBusy, now)
		return
	case l.r.sources(txn).removalHeld():
		l.plan.searchPending = true
		l.endFull(now)
		return
	}
	if l.r.p.Target.Observe == nil {
		// Prune must not meet an Update of a row that it does not know.
		op.Kind = pool.Prune
		if l.pool.Busy() > 0 {
			l.drain(now)
			return
		}
		l.exclusive, l.full.drainUntil = true, time.Time{}
	}
	l.full.asked, l.full.gone = true, map[string]bool{}
	l.plan.searchPending = false
	l.pool.Hand(w, &pool.Batch{Tasks: []pool.Task{op}, Txn: txn, At: now, Class: workqueue.Refreshes})
}

// stillAsking reports whether an earlier Observe or Prune is stuck.
func (l *loop) stillAsking() bool {
	return slices.ContainsFunc(l.pool.Stuck(), func(w *pool.Worker) bool { return w.Batch.Asks() })
}

// drain keeps workers idle until nothing runs, for a limited time: one long operation must not
// stop all others. The limit doubles with every attempt, so that a target whose operations are
// always slow is pruned too.
func (l *loop) drain(now time.Time) {
	switch {
	case len(l.pool.Stuck()) > 0:
		l.fullFailed(errBusy, now)
	case !l.exclusive:
		limit := min(drainLimit<<min(l.plan.attempts, 16), l.r.p.Config.OperationTimeout)
		l.exclusive, l.full.drainUntil = true, now.Add(limit)
		for _, w := range l.pool.Workers() {
			if w.Batch != nil {
				l.takeBack(w.Batch)
			}
		}
	case !now.Before(l.full.drainUntil):
		l.fullFailed(errBusy, now)
	}
}

// sawGone records a successful delete, because a listing that began earlier may still contain the
// removed object.
func (f *fullPass) sawGone(out *pool.Task) {
	if (f.asked || f.phase == fullCompare) && out.Kind == pool.Delete {
		f.gone[out.Item.Key] = true
	}
}

// orphansAnswered handles the outcome of askForOrphans.
func (l *loop) orphansAnswered(out *pool.Task, answer *pool.Answer, now time.Time) {
	l.exclusive, l.full.asked = false, false
	pruned := uint64(max(0, answer.Pruned))
	l.metrics.outOfSync += pruned
	l.metrics.pruned += pruned
	if out.Err != nil {
		l.fullFailed(out.Err, now)
		return
	}
	l.plan.attempts, l.plan.err = 0, nil
	l.full.observed, l.full.phase = answer.Observed, fullCompare
}

// compareSlice finds the orphans in a slice of what was observed. Whatever was deleted since the
// listing began is not one.
func (l *loop) compareSlice(now time.Time) {
	txn := l.r.p.DB.ReadTxn()
	slice := l.full.observed[:min(fullScan, len(l.full.observed))]
	l.full.observed = l.full.observed[len(slice):]
	for _, e := range slice {
		if l.r.p.Table.FindKey(txn, e.Key()) == nil && !l.full.gone[string(e.Key())] {
			l.foundOrphan(e)
		}
	}
	if len(l.full.observed) == 0 {
		l.full.phase = fullDeletes
		l.removeOrphans(now)
		l.limits.Searched(now)
		l.r.member.SetSearched()
	}
}

func (l *loop) foundOrphan(e *store.Entry) {
	it := l.queue.Get(keyOf(e))
	if !it.Idle() {
		return // it is being processed
	}
	if !it.Deleting {
		it.Entry = e
		it.Orphan = true
		l.setDeleting(it, true)
	}
	l.waiters.pendingNow(it)
	l.full.orphans = append(l.full.orphans, it)
}

// removeOrphans makes all orphans ready at once, so that the change limit counts all of them
// before the first is removed.
func (l *loop) removeOrphans(now time.Time) {
	for _, it := range l.full.orphans {
		if it.Deleting && it.Idle() && l.queue.Items[it.Key] == it {
			l.joinFull(it)
			l.enqueue(it, workqueue.Refreshes, workqueue.Orphan, now)
		}
	}
	l.full.orphans = nil
}

// fullFailed schedules another search for orphans after a backoff. None was removed.
func (l *loop) fullFailed(err error, now time.Time) {
	if l.plan.attempts++; l.plan.attempts == 1 {
		l.plan.failing = now
	}
	l.plan.searchPending, l.plan.err = true, err
	l.plan.after = now.Add(l.r.backoff().After(l.plan.attempts))
	l.waiters.orphansSearched(false)
	l.metrics.fullErrors++
	l.metrics.pruneErrors++
	l.r.p.Logger.Warn("orphans could not be found", "reconciler", l.r.p.Name, "attempts", l.plan.attempts, "error", err)
	l.endFull(now)
}

func (l *loop) endFull(now time.Time) {
	l.exclusive, l.health.firstPassDone = false, true
	l.metrics.full.observe(now.Sub(l.full.began))
	l.full = fullPass{}
}
