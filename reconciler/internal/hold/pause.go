package hold

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Selector selects the rows of a table that have one of the keys, or match. The zero value selects
// all rows.
type Selector struct {
	Keys []string // primary keys as text, as [statedb.Table.Key] returns them
	// Match is called from several goroutines, also of rows that are deleted. It must
	// return quickly and not use the reconciler. A row for which it panics matches.
	Match func(*store.Entry) bool
}

// Selects reports whether a row is selected, given its key as text.
func (s *Selector) Selects(key string, row *store.Entry) bool {
	return s.all() || slices.Contains(s.Keys, key) || s.Match != nil && s.matches(row)
}

func (s *Selector) all() bool { return s.Match == nil && len(s.Keys) == 0 }

func (s *Selector) matches(row *store.Entry) (matches bool) {
	return pool.Guard(func() { matches = s.Match(row) }) != nil || matches
}

// Pauses is the policy that holds paused rows. Make it with [NewPauses].
type Pauses struct {
	table *store.Table
	list  atomic.Pointer[[]pause] // the elements do not change
}

type pause struct {
	rows  Selector
	until time.Time // zero: until it is resumed
}

// NewPauses returns a policy that holds no row of a table.
func NewPauses(table *store.Table) *Pauses {
	p := &Pauses{table: table}
	p.set(nil)
	return p
}

func (p *Pauses) get() []pause       { return *p.list.Load() }
func (p *Pauses) set(pauses []pause) { p.list.Store(&pauses) }

// Any reports whether there are pauses.
func (p *Pauses) Any() bool { return len(p.get()) > 0 }

// All reports whether all rows are paused.
func (p *Pauses) All() bool {
	return slices.ContainsFunc(p.get(), func(each pause) bool { return each.rows.all() })
}

// Begin pauses rows until a time, or until [Pauses.End] if it is zero.
func (p *Pauses) Begin(rows Selector, until time.Time) {
	p.set(append(slices.Clip(p.get()), pause{rows, until}))
}

// End ends the pauses of rows: all of them, or those of keys, or those by Match of rows that
// match.
func (p *Pauses) End(rows Selector) {
	var left []pause
	for _, each := range p.get() {
		if !rows.all() && each.removeKeys(rows.Keys) {
			each.removeMatching(rows)
			left = append(left, each)
		}
	}
	p.set(left)
}

// removeKeys removes keys from the pause, and reports whether anything is left of it.
func (p *pause) removeKeys(keys []string) bool {
	had := len(p.rows.Keys)
	p.rows.Keys = slices.DeleteFunc(slices.Clone(p.rows.Keys), func(k string) bool { return slices.Contains(keys, k) })
	return len(p.rows.Keys) > 0 || had == 0 || p.rows.Match != nil
}

func (p *pause) removeMatching(rows Selector) {
	if p.rows.Match == nil || rows.Match == nil {
		return
	}
	before := p.rows
	p.rows.Match = func(row *store.Entry) bool { return before.matches(row) && !rows.matches(row) }
}

// Over reports whether there are pauses to [Pauses.Expire].
func (p *Pauses) Over(now time.Time) bool {
	return slices.ContainsFunc(p.get(), func(each pause) bool { return each.over(now) })
}

// Expire ends the pauses that are over, and reports whether there were any.
func (p *Pauses) Expire(now time.Time) bool {
	if !p.Over(now) {
		return false
	}
	p.set(slices.DeleteFunc(slices.Clone(p.get()), func(each pause) bool { return each.over(now) }))
	return true
}

func (p pause) over(now time.Time) bool { return !p.until.IsZero() && !now.Before(p.until) }

// NextEnd returns when the next pause ends by itself, or zero.
func (p *Pauses) NextEnd() (end time.Time) {
	for _, each := range p.get() {
		end = earliest(end, each.until)
	}
	return end
}

// Paused reports whether a row is paused, and until when (zero: until resumed). It is safe for concurrent
// use.
func (p *Pauses) Paused(row *store.Entry) (until time.Time, paused bool) {
	pauses := p.get()
	if len(pauses) == 0 {
		return time.Time{}, false
	}
	key := p.table.KeyText(row)
	for _, each := range pauses {
		if each.rows.Selects(key, row) {
			return each.until, true
		}
	}
	return time.Time{}, false
}

// Holds implements [Policy].
func (p *Pauses) Holds(t *pool.Task, _ store.ReadTxn, _ time.Time) (Reason, bool) {
	until, paused := p.Paused(t.Entry)
	if !paused {
		return Reason{}, false
	}
	text := "until it is resumed"
	if !until.IsZero() {
		text = "until " + until.Format(time.RFC3339)
	}
	return Reason{Stage: workqueue.Paused, Text: text}, true // Expire releases it
}

// earliest returns the earlier of two times; zero is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
