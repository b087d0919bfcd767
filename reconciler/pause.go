package reconciler

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/statehive/statehive/statedb"
)

// Selector says which rows of a table are meant: those with one of the keys, or
// that match. The zero value means all rows.
type Selector[Obj any] struct {
	Keys []string // primary keys as text, as [statedb.Table.Key] returns them
	// Match is called from several goroutines, also of rows that are deleted. It
	// returns soon and does not use the reconciler. It matches a row for which it
	// panics.
	Match func(Obj) bool
}

func (s *Selector[Obj]) all() bool { return s.Match == nil && len(s.Keys) == 0 }

func (s *Selector[Obj]) selects(key string, obj Obj) bool {
	return s.all() || slices.Contains(s.Keys, key) || s.Match != nil && s.matches(obj)
}

func (s *Selector[Obj]) matches(obj Obj) (matches bool) {
	return guard(func() { matches = s.Match(obj) }) != nil || matches
}

// Trigger has the selected rows applied now, whatever their status, and failed
// deletes tried again, also of rows that wait for their backoff. It returns how
// many were found. Rows that are waiting to be run already are not run twice.
// [ErrNotRunning] when the reconciler does not run.
func (r *Reconciler[Obj]) Trigger(ctx context.Context, which Selector[Obj]) (int, error) {
	queries := map[string]statedb.Query[Obj]{}
	for obj := range r.p.Table.All(r.p.DB.ReadTxn()) {
		if which.selects(r.p.Table.Key(obj), obj) {
			q := r.p.Table.KeyQuery(obj)
			queries[q.Encoded()] = q
		}
	}
	err := r.call(ctx, func(l *loop[Obj]) {
		for key, it := range l.queue.items {
			if it.deleting && which.selects(r.p.Table.Key(it.last), it.last) {
				queries[key] = it.query
			}
		}
	})
	if err == nil {
		err = r.inbox.trigger(slices.Collect(maps.Values(queries)), laneManual, reasonManual)
	}
	if err != nil {
		return 0, err
	}
	return len(queries), nil
}

// pause is a selection of rows that are not to be run.
type pause[Obj any] struct {
	which Selector[Obj]
	until time.Time // zero: until Resume
}

// Pause keeps the selected rows from being run until a time, or until
// [Reconciler.Resume] if it is zero: rows that come later too, and deletes too.
// Changes of a row meanwhile end in one operation. An operation that is running
// goes on. [ErrNotRunning] when the reconciler does not run; a restart forgets
// pauses.
func (r *Reconciler[Obj]) Pause(ctx context.Context, which Selector[Obj], until time.Time) error {
	which.Keys = slices.Clone(which.Keys)
	return r.call(ctx, func(l *loop[Obj]) {
		now := time.Now()
		l.giveUpRound(now)
		l.setPauses(append(slices.Clip(l.pauses()), pause[Obj]{which, until}))
		for _, w := range l.crew {
			if w.batch != nil {
				l.takeBack(w.batch)
			}
		}
	})
}

// Resume ends the pauses of the selected rows: with the zero Selector all
// pauses, with keys those keys, also out of pauses of more keys, and with Match
// the rows that match, also later, out of the pauses by Match. A key that is in a
// pause of all rows or by Match stays paused, and so does a row that matches and
// is in a pause of all rows or by its key.
func (r *Reconciler[Obj]) Resume(ctx context.Context, which Selector[Obj]) error {
	return r.call(ctx, func(l *loop[Obj]) {
		var left []pause[Obj]
		for _, p := range l.pauses() {
			if !which.all() && p.without(which.Keys) {
				p.spare(which)
				left = append(left, p)
			}
		}
		l.setPauses(left)
		l.release(holdPaused, time.Now())
	})
}

// without takes keys out of a pause, and says whether something is left of it.
func (p *pause[Obj]) without(keys []string) bool {
	had := len(p.which.Keys)
	p.which.Keys = slices.DeleteFunc(slices.Clone(p.which.Keys), func(k string) bool { return slices.Contains(keys, k) })
	return len(p.which.Keys) > 0 || had == 0 || p.which.Match != nil
}

// spare takes the rows that a selector matches out of a pause by Match.
func (p *pause[Obj]) spare(which Selector[Obj]) {
	if p.which.Match == nil || which.Match == nil {
		return
	}
	before := p.which
	p.which.Match = func(obj Obj) bool { return before.matches(obj) && !which.matches(obj) }
}

func (l *loop[Obj]) pauses() []pause[Obj] { return *l.r.pauses.Load() }

// setPauses makes known what is paused. Nothing of it is changed afterwards:
// others than the deciding goroutine read it.
func (l *loop[Obj]) setPauses(pauses []pause[Obj]) { l.r.pauses.Store(&pauses) }

// paused says whether a row may not run, and until when if that is known.
func (r *Reconciler[Obj]) paused(obj Obj) (until time.Time, paused bool) {
	pauses := *r.pauses.Load()
	if len(pauses) == 0 {
		return time.Time{}, false
	}
	key := r.p.Table.Key(obj)
	for _, p := range pauses {
		if p.which.selects(key, obj) {
			return p.until, true
		}
	}
	return time.Time{}, false
}

func (l *loop[Obj]) expirePauses(now time.Time) {
	over := func(p pause[Obj]) bool { return !p.until.IsZero() && !now.Before(p.until) }
	if slices.ContainsFunc(l.pauses(), over) {
		l.setPauses(slices.DeleteFunc(slices.Clone(l.pauses()), over))
		l.release(holdPaused, now)
	}
}

// pausesEnd returns when the next pause ends by itself, or zero.
func (l *loop[Obj]) pausesEnd() (end time.Time) {
	for _, p := range l.pauses() {
		end = earliest(end, p.until)
	}
	return end
}

// gate puts an operation aside that may not run now, and says whether it did.
func (l *loop[Obj]) gate(op operation[Obj], txn statedb.ReadTxn, now time.Time) bool {
	if until, paused := l.r.paused(op.obj); paused {
		waitsFor := "until it is resumed"
		if !until.IsZero() {
			waitsFor = "until " + until.Format(time.RFC3339)
		}
		l.park(op.item, holdPaused, waitsFor)
		return true
	}
	// What agrees with what is observed is not to be repaired, and waits for nobody.
	return l.drifting(op, txn, now) || l.dependent(op, txn, now) || l.overLimit(op, txn, now)
}

func (l *loop[Obj]) park(it *item[Obj], why hold, waitsFor string) {
	l.queue.park(it, why, waitsFor)
	l.ledger.note(it)
}

// release makes ready what was held for a reason that may have ended. What is
// held still is put aside again.
func (l *loop[Obj]) release(why hold, now time.Time) {
	for _, key := range sortedKeys(l.queue.items) {
		if it := l.queue.items[key]; it.state == waiting && it.hold == why {
			l.enqueue(it, laneChange, reasonResume, now)
		}
	}
}

// sortedKeys makes the order of operations the same every time.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
