package engine

import (
	"fmt"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// explain is [Reconciler.Explain] of the deciding goroutine. Rows of the round
// under way become items, so that there is one place to look.
func (l *loop) explain(key string) (Explanation, error) {
	now := time.Now()
	if l.round.open > 0 {
		l.giveUpRound(now)
	}
	txn := l.r.p.DB.ReadTxn()
	e, row, err := l.r.explainRow(txn, key)
	it := l.deletingItem(key)
	if row != nil {
		it = l.queue.Items[keyOf(row)]
	}
	if err != nil || row == nil && it == nil {
		return e, l.r.unknownKey(txn, key, err, l)
	}
	switch {
	case it != nil:
		l.explainItem(&e, it, now)
	case e.Status.Kind() == Done:
		e.WaitsFor = []Wait{{Cause: waitNothing, Text: "nothing: it is done"}}
	default:
		e.Queued = true
		e.Reasons = workqueue.Change.String()
		e.WaitsFor = l.readyWaits(Wait{Cause: waitTurn, Text: "its turn: the change has not been read yet"}, now)
	}
	if row != nil {
		e.Drifted, e.LastDrift = l.repairs.Of(keyOf(row))
	}
	if e.Exists && e.WaitsFor[0].Cause == waitNothing {
		e.WaitsFor = append(e.WaitsFor, l.pauseOf(row)...)
	}
	return e, nil
}

// pauseOf says that a row is paused that has nothing to be done.
func (l *loop) pauseOf(row *store.Entry) []Wait {
	until, paused := l.r.pauses.Paused(row)
	if !paused {
		return nil
	}
	text := workqueue.Paused.String() + ": its next change waits until it is resumed"
	if !until.IsZero() {
		text = workqueue.Paused.String() + ": its next change waits until " + until.Format(timeFormat)
	}
	return []Wait{{Cause: workqueue.Paused.String(), Text: text, Until: until}}
}

func (l *loop) explainItem(e *Explanation, it *workqueue.Item, now time.Time) {
	e.Queued, e.Attempts, e.Since = true, it.Attempts, it.Since
	e.LastAttempts = append(e.LastAttempts, it.Tries...)
	if e.Reasons = it.Reasons.String(); it.Reasons == 0 {
		e.Reasons = it.Ran.String()
	}
	if it.Err != nil {
		e.LastError = it.Err.Error()
	}
	switch stage := it.Stage(); {
	case stage == workqueue.Queued:
		e.Lane = it.Class().String()
		text := fmt.Sprintf("its turn: %d before it in lane %v", it.Before(), it.Class())
		e.WaitsFor = l.readyWaits(Wait{Cause: waitTurn, Text: text}, now)
	case stage == workqueue.Committing:
		e.WaitsFor = []Wait{{Cause: waitCommit, Text: "the commit of its status"}}
	case stage.InHand():
		e.WaitsFor = []Wait{l.runningWait(it)}
	default:
		e.WaitsFor, e.NextDue = []Wait{waitOf(it)}, it.Due()
		if stage == workqueue.Limit {
			e.WaitsFor[0].Text += "; it is part of plan " + l.limits.PlanID()
		}
		if !l.ready {
			e.WaitsFor = append(e.WaitsFor, Wait{Cause: waitSources, Text: waitingMessage(l.health.sources.waitingFor)})
		}
	}
}

// readyWaits says what a row waits for that could run.
func (l *loop) readyWaits(turn Wait, now time.Time) []Wait {
	switch {
	case !l.ready:
		return []Wait{{Cause: waitSources, Text: waitingMessage(l.health.sources.waitingFor)}, turn}
	case l.exclusive:
		return []Wait{{Cause: waitPrune, Text: "the target to be pruned: nothing else runs meanwhile"}, turn}
	case l.rate.Holds(now):
		limiter := l.r.limits.Load().Limiter
		text := "the rate limit"
		if limiter != nil {
			text = fmt.Sprintf("the rate limit of %v operations per second", float64(limiter.Limit()))
		}
		return []Wait{{Cause: waitRate, Text: text}, turn}
	default:
		return []Wait{turn}
	}
}

// runningWait says how far the operation is that a worker has been given.
func (l *loop) runningWait(it *workqueue.Item) Wait {
	for _, w := range l.pool.All() {
		if w.Batch == nil {
			continue
		}
		since, runs := w.Began()
		if !runs {
			since = w.Batch.At
		}
		switch progress, kind, before := w.Batch.ProgressOf(it); progress {
		case pool.Ended:
			return Wait{Cause: waitCommit, Text: "the commit of its status"}
		case pool.Waiting:
			return Wait{Cause: waitTurn, Text: fmt.Sprintf("its turn: %d before it in the hands of a worker", before)}
		case pool.Begun:
			return runningWait(kind, since, l.r.p.Config.OperationTimeout, w.Stuck)
		case pool.Elsewhere:
		}
	}
	return Wait{Cause: waitRunning, Text: "its operation to return"}
}

// maxLike and maxCompared bound what is done to name keys like one that there is not.
const (
	maxLike     = 5
	maxCompared = 10_000
)

// unknownKey is the error of a key that no row has. It names those that have the
// longest beginning in common with it; l, if not nil, knows the pending deletes.
func (r *Engine) unknownKey(txn store.ReadTxn, key string, err error, l *loop) error {
	unknown := &UnknownKeyError{Table: r.p.Table.Name(), Key: key, Incomplete: r.sources(txn).incomplete, Err: err}
	best, compared := 0, 0
	consider := func(other string) {
		n := commonPrefix(key, other)
		if n > best {
			best, unknown.Like = n, nil
		}
		if n == best && len(unknown.Like) < maxLike {
			unknown.Like = append(unknown.Like, other)
		}
	}
	for e := range r.all(txn) {
		if compared++; compared > maxCompared {
			break
		}
		consider(r.p.Table.KeyText(e))
	}
	if l != nil {
		for _, encoded := range sortedKeys(l.queue.Items) {
			if it := l.queue.Items[encoded]; it.Deleting {
				consider(r.p.Table.KeyText(it.Entry))
			}
		}
	}
	return unknown
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func (r *Engine) whyNotDeleting(key string, l *loop) error {
	txn := r.p.DB.ReadTxn()
	_, row, err := r.explainRow(txn, key)
	if row != nil {
		return fmt.Errorf("table %s: key %q: %w", r.p.Table.Name(), key, errThere)
	}
	return r.unknownKey(txn, key, err, l)
}
