package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Selector says which rows of a table are meant: those with one of the keys, or
// that match. The zero value means all rows.
type Selector struct {
	Keys []string // primary keys as text, as [statedb.Table.Key] returns them
	// Match is called from several goroutines, also of rows that are deleted. It
	// returns soon and does not use the reconciler. It matches a row for which it
	// panics.
	Match func(*store.Entry) bool
}

func (s *Selector) all() bool { return s.Match == nil && len(s.Keys) == 0 }

func (s *Selector) selects(key string, e *store.Entry) bool {
	return s.all() || slices.Contains(s.Keys, key) || s.Match != nil && s.matches(e)
}

func (s *Selector) matches(e *store.Entry) (matches bool) {
	return pool.Guard(func() { matches = s.Match(e) }) != nil || matches
}

// Trigger has the selected rows applied now, whatever their status, and failed
// deletes tried again, also of rows that wait for their backoff. It returns how
// many were found. Rows that are waiting to be run already are not run twice.
// [ErrNotRunning] when the reconciler does not run.
func (r *Engine) Trigger(ctx context.Context, which Selector) (int, error) {
	keys := map[string]bool{}
	for e := range r.all(r.p.DB.ReadTxn()) {
		if which.selects(r.p.Table.KeyText(e), e) {
			keys[keyOf(e)] = true
		}
	}
	err := r.call(ctx, func(l *loop) {
		for key, it := range l.queue.Items {
			if it.Deleting && which.selects(r.p.Table.KeyText(it.Entry), it.Entry) {
				keys[key] = true
			}
		}
	})
	if err == nil {
		err = r.inbox.trigger(slices.Collect(maps.Keys(keys)), workqueue.Manuals, workqueue.Manual)
	}
	if err != nil {
		return 0, err
	}
	return len(keys), nil
}

// pause is a selection of rows that are not to be run.
type pause struct {
	which Selector
	until time.Time // zero: until Resume
}

// Pause keeps the selected rows from being run until a time, or until
// [Reconciler.Resume] if it is zero: rows that come later too, and deletes too.
// Changes of a row meanwhile end in one operation. An operation that is running
// goes on. [ErrNotRunning] when the reconciler does not run; a restart forgets
// pauses.
func (r *Engine) Pause(ctx context.Context, which Selector, until time.Time) error {
	which.Keys = slices.Clone(which.Keys)
	return r.call(ctx, func(l *loop) {
		now := time.Now()
		l.giveUpRound(now)
		l.setPauses(append(slices.Clip(l.pauses()), pause{which, until}))
		for _, w := range l.pool.Workers() {
			if w.Batch != nil {
				l.takeBack(w.Batch)
			}
		}
	})
}

// Resume ends the pauses of the selected rows: with the zero Selector all
// pauses, with keys those keys, also out of pauses of more keys, and with Match
// the rows that match, also later, out of the pauses by Match. A key that is in a
// pause of all rows or by Match stays paused, and so does a row that matches and
// is in a pause of all rows or by its key.
func (r *Engine) Resume(ctx context.Context, which Selector) error {
	return r.call(ctx, func(l *loop) {
		var left []pause
		for _, p := range l.pauses() {
			if !which.all() && p.without(which.Keys) {
				p.spare(which)
				left = append(left, p)
			}
		}
		l.setPauses(left)
		l.release(workqueue.Paused, time.Now())
	})
}

// without takes keys out of a pause, and says whether something is left of it.
func (p *pause) without(keys []string) bool {
	had := len(p.which.Keys)
	p.which.Keys = slices.DeleteFunc(slices.Clone(p.which.Keys), func(k string) bool { return slices.Contains(keys, k) })
	return len(p.which.Keys) > 0 || had == 0 || p.which.Match != nil
}

// spare takes the rows that a selector matches out of a pause by Match.
func (p *pause) spare(which Selector) {
	if p.which.Match == nil || which.Match == nil {
		return
	}
	before := p.which
	p.which.Match = func(e *store.Entry) bool { return before.matches(e) && !which.matches(e) }
}

func (l *loop) pauses() []pause { return *l.r.pauses.Load() }

// setPauses makes known what is paused. Nothing of it is changed afterwards:
// others than the deciding goroutine read it.
func (l *loop) setPauses(pauses []pause) { l.r.pauses.Store(&pauses) }

// paused says whether a row may not run, and until when if that is known.
func (r *Engine) paused(e *store.Entry) (until time.Time, paused bool) {
	pauses := *r.pauses.Load()
	if len(pauses) == 0 {
		return time.Time{}, false
	}
	key := r.p.Table.KeyText(e)
	for _, p := range pauses {
		if p.which.selects(key, e) {
			return p.until, true
		}
	}
	return time.Time{}, false
}

func (l *loop) expirePauses(now time.Time) {
	over := func(p pause) bool { return !p.until.IsZero() && !now.Before(p.until) }
	if slices.ContainsFunc(l.pauses(), over) {
		l.setPauses(slices.DeleteFunc(slices.Clone(l.pauses()), over))
		l.release(workqueue.Paused, now)
	}
}

// pausesEnd returns when the next pause ends by itself, or zero.
func (l *loop) pausesEnd() (end time.Time) {
	for _, p := range l.pauses() {
		end = earliest(end, p.until)
	}
	return end
}

// gate puts an operation aside that may not run now, and says whether it did.
func (l *loop) gate(op *pool.Task, txn store.ReadTxn, now time.Time) bool {
	// What agrees with what is observed is not to be repaired, and waits for nobody.
	if l.compared(op, txn, now) {
		return true
	}
	if until, paused := l.r.paused(op.Entry); paused {
		waitsFor := "until it is resumed"
		if !until.IsZero() {
			waitsFor = "until " + until.Format(time.RFC3339)
		}
		l.park(op.Item, workqueue.Paused, time.Time{}, waitsFor)
		return true
	}
	return l.delayed(op, txn, now) || l.dependent(op, txn, now) || l.overLimit(op, txn, now)
}

func (l *loop) park(it *workqueue.Item, stage workqueue.Stage, until time.Time, detail string) {
	l.queue.Wait(it, stage, until, detail)
	l.unrepaired(it)
	l.ledger.note(it)
}

// release makes ready what was held for a reason that may have ended. What is
// held still is put aside again.
func (l *loop) release(stage workqueue.Stage, now time.Time) {
	for _, key := range sortedKeys(l.queue.Items) {
		if it := l.queue.Items[key]; it.Stage() == stage {
			l.enqueue(it, workqueue.Changes, workqueue.Resume, now)
		}
	}
}

// sortedKeys makes the order of operations the same every time.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
