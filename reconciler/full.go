package reconciler

import (
	"iter"
	"time"

	"github.com/statehive/statehive/statedb"
)

// fullSlice is how many rows of a full pass are made ready at a time.
const fullSlice = 64

type fullPhase uint8

const (
	fullIdle    fullPhase = iota
	fullUpdates           // all rows are being applied
	fullSurplus           // what is there but not in the table is being found
	fullDeletes           // and removed
)

// fullPass is the full pass under way, if any.
type fullPass[Obj any] struct {
	phase       fullPhase
	began       time.Time
	next        func() (Obj, statedb.Revision, bool)
	stop        func()
	outstanding int  // items that it made ready and that are not through
	asked       bool // the target is being asked for the surplus
}

// fullPlan says when full passes are due.
type fullPlan struct {
	due time.Time // all rows and the surplus; zero: at once
	// owed: the surplus alone has to be removed, because that could not be done
	// when it was due. So it is at start, where the feed has all rows applied.
	owed     bool
	attempts int       // failed ones to find the surplus
	after    time.Time // not again before
	err      error     // of the last one
}

func (l *loop[Obj]) nextFull(now time.Time) time.Time {
	interval := l.r.p.Config.FullInterval
	if interval < 0 {
		return now.AddDate(100, 0, 0)
	}
	return now.Add(jitter(interval, 0.1))
}

// startFull begins a full pass when one is due.
func (l *loop[Obj]) startFull(now time.Time) {
	rows := iter.Seq2[Obj, statedb.Revision](func(func(Obj, statedb.Revision) bool) {})
	switch {
	case l.full.phase != fullIdle:
		return
	case !now.Before(l.plan.due):
		l.plan.due = l.nextFull(now)
		rows = l.r.p.Table.All(l.r.p.DB.ReadTxn())
	case !l.plan.owed || l.held || now.Before(l.plan.after):
		return
	}
	l.full = fullPass[Obj]{phase: fullUpdates, began: now}
	l.full.next, l.full.stop = iter.Pull2(rows)
}

// advanceFull moves the full pass on: a slice of rows at a time, while nothing
// of the slice before is left.
func (l *loop[Obj]) advanceFull(now time.Time) {
	l.startFull(now)
	switch l.full.phase {
	case fullUpdates:
		for l.full.outstanding == 0 && l.enqueueSlice() {
			// Rows that are being applied just now are passed over.
		}
		if l.full.outstanding == 0 && l.settled() {
			l.full.phase = fullSurplus
		}
	case fullDeletes:
		if l.full.outstanding == 0 {
			l.plan.owed, l.plan.attempts, l.plan.err = false, 0, nil
			l.r.succeeded(now)
			l.endFull(now)
		}
	case fullSurplus, fullIdle:
	}
	if l.full.phase == fullSurplus {
		l.askSurplus(now)
	}
}

// settled says that everything changed so far has been attempted, so that what
// is wanted is there before what is not wanted goes.
func (l *loop[Obj]) settled() bool { return l.drained && l.queue.len() == 0 && l.inFlight == 0 }

// enqueueSlice makes the next rows ready; false when there are no more.
func (l *loop[Obj]) enqueueSlice() bool {
	for range fullSlice {
		obj, _, ok := l.full.next()
		if !ok {
			return false
		}
		it := l.queue.get(l.r.p.Table.KeyQuery(obj))
		if it.state != waiting && it.state != queued {
			continue // it is being applied right now
		}
		it.last, it.force = obj, true
		l.joinFull(it)
		l.queue.enqueue(it, laneFull)
	}
	return true
}

func (l *loop[Obj]) joinFull(it *item[Obj]) {
	if !it.full {
		it.full = true
		l.full.outstanding++
	}
}

// leaveFull is called for each item that was run or dropped.
func (l *loop[Obj]) leaveFull(it *item[Obj]) {
	if it.full {
		it.full = false
		l.full.outstanding--
	}
}

// askSurplus asks the target for what is there, or to prune. While a source is
// incomplete a row that is missing from the table may be wanted: the surplus is
// owed then.
func (l *loop[Obj]) askSurplus(now time.Time) {
	switch {
	case l.full.asked || l.inFlight == l.r.p.Config.Workers:
		return
	case l.held:
		l.plan.owed = true
		l.endFull(now)
		return
	}
	op := operation[Obj]{kind: opObserve, txn: l.r.p.DB.ReadTxn()}
	if l.r.observer == nil {
		// Prune must not meet an Update of a row that it does not know.
		op.kind, l.exclusive = opPrune, true
		if l.inFlight > 0 {
			return
		}
	}
	l.full.asked = true
	l.hand(op)
}

// surplusAnswered takes what came of askSurplus.
func (l *loop[Obj]) surplusAnswered(out outcome[Obj], now time.Time) {
	l.exclusive, l.full.asked = false, false
	if out.err != nil {
		l.fullFailed(out, now)
		return
	}
	for range out.pruned {
		l.r.p.Metrics.OutOfSync()
	}
	txn := l.r.p.DB.ReadTxn()
	for _, obj := range out.observed {
		query := l.r.p.Table.KeyQuery(obj)
		if _, _, wanted := l.r.p.Table.Get(txn, query); !wanted {
			l.removeSurplus(query, obj)
		}
	}
	l.full.phase = fullDeletes
}

func (l *loop[Obj]) removeSurplus(query statedb.Query[Obj], obj Obj) {
	it := l.queue.get(query)
	if it.state != waiting {
		return // it is being deleted
	}
	if !it.deleting {
		it.last, it.surplus = obj, true
		l.setDeleting(it, true)
	}
	l.joinFull(it)
	l.queue.enqueue(it, laneFull)
}

// fullFailed tries again to find the surplus after a backoff: nothing was removed.
func (l *loop[Obj]) fullFailed(out outcome[Obj], now time.Time) {
	l.plan.attempts++
	l.plan.owed, l.plan.err = true, out.err
	l.plan.after = now.Add(l.r.p.Config.backoff(l.plan.attempts))
	l.r.p.Metrics.FullError()
	l.r.p.Logger.Warn("surplus could not be found", "reconciler", l.r.p.Name, "attempts", l.plan.attempts, "error", out.err)
	l.endFull(now)
}

func (l *loop[Obj]) endFull(now time.Time) {
	l.exclusive = false
	l.full.stop()
	l.r.p.Metrics.FullPass(now.Sub(l.full.began))
	l.full = fullPass[Obj]{}
}
