package engine

import (
	"fmt"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// ChangeLimit bounds how many rows are changed within a time, so that a mistake
// in what is desired does not reach the whole target before someone has seen it.
// What exceeds it is held, and shown by [Reconciler.Plan], until
// [Reconciler.Approve], or until so many of the rows are back that the rest is
// within the limit. That time goes by releases nothing.
type ChangeLimit struct {
	// Rows and Percent have both to be exceeded. Percent is of the rows that are
	// there and those that are counted. Defaults 10 and 30.
	Rows    int
	Percent float64
	// Window is the time that the counted changes lie in: the rows changed in it
	// without an approval, and all that are to be changed. Default 1 minute.
	Window time.Duration
	// Off says that there is no limit.
	Off bool
}

func (c ChangeLimit) withDefaults() ChangeLimit {
	setDefault(&c.Rows, 10)
	setDefault(&c.Percent, 30)
	setDefault(&c.Window, time.Minute)
	return c
}

func (c ChangeLimit) check(field string) error {
	switch {
	case c.Rows < 0:
		return fmt.Errorf("%s.Rows is %d: it must be positive, or 0 for the default", field, c.Rows)
	case !(c.Percent >= 0 && c.Percent <= 100):
		return fmt.Errorf("%s.Percent is %v: it must be at most 100 and positive, or 0 for the default", field, c.Percent)
	case c.Window < 0:
		return fmt.Errorf("%s.Window is %v: it must be positive, or 0 for the default", field, c.Window)
	}
	return nil
}

// String says what is held.
func (c ChangeLimit) String() string {
	return fmt.Sprintf("more than %d rows and %v %% of the table within %v", c.Rows, c.Percent, c.Window)
}

// brake counts the changes of one kind, by row, and says when they are too many.
type brake struct {
	limit    ChangeLimit
	kind     pool.Kind
	waitsFor string
	claims   map[string]*claim // of the items that it counts, by encoded key

	rows    map[string]counted  // changed within the window, or wanted, by encoded key
	ahead   map[string]struct{} // wanted too, but still in the feed
	past    []changed           // what was changed, in order of time
	wanting int                 // items that are neither admitted nor approved
	held    bool                // these are not admitted
	since   time.Time           // when held
}

// counted is a row that counts as changed.
type counted struct {
	at     time.Time // when it was changed; zero: it was not
	wanted bool      // there is an item that is to change it
}

type changed struct {
	key string
	at  time.Time
}

// newBrake returns nil if there is no limit.
func newBrake(limit ChangeLimit, kind pool.Kind) *brake {
	if limit.Off {
		return nil
	}
	return &brake{
		limit: limit, kind: kind, waitsFor: fmt.Sprintf("until its %v is approved: %v", kind, limit),
		claims: map[string]*claim{}, rows: map[string]counted{}, ahead: map[string]struct{}{},
	}
}

// want counts a row that is to be changed.
func (b *brake) want(key string) {
	delete(b.ahead, key)
	row := b.rows[key]
	row.wanted = true
	b.rows[key] = row
}

// unwant says that a row is not to be changed any more.
func (b *brake) unwant(key string) {
	row := b.rows[key]
	if row.wanted = false; row.at.IsZero() {
		delete(b.rows, key)
	} else {
		b.rows[key] = row
	}
}

// expect counts a change that was not taken from the feed yet.
func (b *brake) expect(key string) {
	if _, known := b.rows[key]; !known {
		b.ahead[key] = struct{}{}
	}
}

// did counts a wanted row that was changed.
func (b *brake) did(key string, now time.Time) {
	b.rows[key] = counted{at: now}
	b.past = append(b.past, changed{key, now})
}

// expire forgets what was changed before the window.
func (b *brake) expire(now time.Time) {
	n := 0
	for ; n < len(b.past) && now.Sub(b.past[n].at) > b.limit.Window; n++ {
		old := b.past[n]
		if row := b.rows[old.key]; row.at.Equal(old.at) {
			row.at = time.Time{}
			b.rows[old.key] = row
			if !row.wanted {
				delete(b.rows, old.key)
			}
		}
	}
	if b.past = b.past[n:]; len(b.past) == 0 {
		b.past = nil
	}
}

// total is how many rows the percentage is of, when so many are in the table.
func (b *brake) total(there int) int {
	if b.kind == pool.Delete {
		return there + len(b.rows) + len(b.ahead)
	}
	return there
}

func (b *brake) exceeded(there int) bool {
	n := len(b.rows) + len(b.ahead)
	return n > b.limit.Rows && float64(n)*100 > b.limit.Percent*float64(b.total(there))
}

// allowance is whether an item that is counted may run.
type allowance uint8

const (
	wanting  allowance = iota // it is not known whether it may run
	admitted                  // it may, also again when it fails
	approved                  // it may because someone said so, and is not counted
)

// claim is how an item stands with the brake that counts it.
type claim struct {
	allowance allowance
	plan      uint64 // the first that shows it
}

// blast is how much may be changed at once, and what is held because of that.
type blast struct {
	deletes, updates *brake // nil: there is no limit
	// applied has the keys of rows that were applied since the start, if updates
	// are limited: to apply a row first is not to change it.
	applied map[string]struct{}
	scout   *store.Cursor  // counts what the feed has behind the round; nil: not needed
	from    store.Revision // where it has to begin: of the last change that may be counted
	relax   bool           // fewer are counted than before

	run   string // tells the plans of this run from those of others
	plan  uint64 // number of the plan that what is held next belongs to
	shown uint64 // number of the last plan that was shown and not approved, or 0
}

func newBlast(c *Config, now time.Time) blast {
	b := blast{
		deletes: newBrake(c.DeleteLimit, pool.Delete), updates: newBrake(c.UpdateLimit, pool.Update),
		run: runName(now), plan: 1,
	}
	if b.updates != nil {
		b.applied = map[string]struct{}{}
	}
	return b
}

// each calls fn for the limits that there are.
func (b *blast) each(fn func(*brake)) {
	for _, brake := range []*brake{b.deletes, b.updates} {
		if brake != nil {
			fn(brake)
		}
	}
}

// held is how many operations of a kind are held.
func (b *blast) held() (deletes, updates int) {
	b.each(func(brake *brake) {
		switch {
		case !brake.held:
		case brake.kind == pool.Delete:
			deletes = brake.wanting
		default:
			updates = brake.wanting
		}
	})
	return deletes, updates
}

// count has a brake, if there is one, count an item, once.
func (b *blast) count(it *workqueue.Item, by *brake) {
	if by == nil || by.claims[it.Key] != nil {
		return
	}
	b.discount(it)
	if b.plan == b.shown {
		b.plan++
	}
	by.claims[it.Key] = &claim{wanting, b.plan}
	by.want(it.Key)
	by.wanting++
}

// updated counts the update of an item whose row has changed. If the item is in
// hand that has to wait for the next look at it.
func (b *blast) updated(it *workqueue.Item) {
	if !it.Stage().InHand() && b.changes(it.Key) {
		b.count(it, b.updates)
	}
}

// discount forgets an item that is not to be changed any more.
func (b *blast) discount(it *workqueue.Item) {
	brake, c := b.counts(it)
	if c == nil {
		return
	}
	if c.allowance != approved {
		brake.unwant(it.Key)
		b.relax = true
	}
	if c.allowance == wanting {
		brake.wanting--
		b.relax = true
	}
	delete(brake.claims, it.Key)
}

// counts returns the brake that counts an item, with its claim, or nil.
func (b *blast) counts(it *workqueue.Item) (by *brake, c *claim) {
	b.each(func(brake *brake) {
		if own := brake.claims[it.Key]; own != nil {
			by, c = brake, own
		}
	})
	return by, c
}

// ended counts an operation that was successful.
func (b *blast) ended(out *pool.Task, now time.Time) {
	it := out.Item
	if it == nil { // of a round: updates are not limited
		return
	}
	if b.applied != nil {
		if out.Kind == pool.Update {
			b.applied[it.Key] = struct{}{}
		} else {
			delete(b.applied, it.Key)
		}
	}
	brake, c := b.counts(it)
	if c == nil || brake.kind != out.Kind || c.allowance == wanting {
		return
	}
	if c.allowance == admitted {
		brake.did(it.Key, now)
	}
	delete(brake.claims, it.Key)
}

// unlimited says that an operation that was let through as one on a row that is
// done may be run on what that row is now.
func (r *Engine) unlimited(was, is StatusKind) bool {
	return r.p.Config.UpdateLimit.Off || was == Pending || is != Pending
}

// overLimit puts an operation aside that is one of too many, and says whether it did.
func (l *loop) overLimit(op *pool.Task, txn store.ReadTxn, now time.Time) bool {
	it := op.Item
	if op.Kind == pool.Update && (op.Was == Pending || it.Differs) {
		l.blast.updated(it)
	}
	b, c := l.blast.counts(it)
	if c == nil || c.allowance != wanting {
		return false
	}
	if !b.held {
		if !b.exceeded(l.r.p.Table.Len(txn)) {
			c.allowance = admitted
			b.wanting--
			return false
		}
		b.held, b.since = true, now
		l.r.p.Logger.Warn("too many changes are held until they are approved", "reconciler", l.r.p.Name,
			"operation", b.kind.String(), "rows", len(b.rows)+len(b.ahead), "limit", b.limit.String())
	}
	l.park(it, workqueue.Limit, time.Time{}, b.waitsFor)
	return true
}

// changes says that an update of a row would change what was applied before.
func (b *blast) changes(key string) bool {
	_, was := b.applied[key]
	return was
}

// relieve ends what is held when it is within the limit again.
func (l *loop) relieve(now time.Time) {
	if !l.blast.relax {
		return
	}
	l.blast.relax = false
	there := l.r.p.Table.Len(l.r.p.DB.ReadTxn())
	l.blast.each(func(b *brake) {
		if b.held && (b.wanting == 0 || !b.exceeded(there)) {
			b.held = false
			l.release(workqueue.Limit, now)
		}
	})
	if !l.blast.holding() {
		l.blast.nextPlan()
	}
}

func (b *blast) holding() bool {
	return b.deletes != nil && b.deletes.held || b.updates != nil && b.updates.held
}

// nextPlan makes a plan that was shown one that cannot be approved any more.
func (b *blast) nextPlan() {
	b.plan, b.shown = max(b.plan, b.shown+1), 0
}

// lookAhead counts the changes that the feed has behind what was taken from it, if
// it has more: a mass of changes is held before the first of them runs. What it
// has looked at is not looked at again.
func (l *loop) lookAhead(txn store.ReadTxn, more bool) {
	b := &l.blast
	switch {
	case !more:
		b.lookedAhead()
		return
	case b.scout == nil && !b.deciding():
		return
	case b.scout == nil:
		b.scout = l.r.p.Table.Changes(b.from)
	}
	for change := range b.scout.Changes(txn) {
		l.foresee(change)
	}
}

// took notes how far the changes that may be counted were taken from the feed.
func (b *blast) took(change store.Change) {
	if change.Kind == store.Delete || b.updates != nil {
		b.from = change.Revision
	}
}

// deciding says that there is something wanted that is not held yet.
func (b *blast) deciding() (deciding bool) {
	b.each(func(brake *brake) { deciding = deciding || !brake.held && brake.wanting > 0 })
	return deciding
}

// foresee counts a change that was not taken from the feed yet.
func (l *loop) foresee(change store.Change) {
	b := &l.blast
	switch {
	case change.Kind == store.Delete && b.deletes != nil:
		b.deletes.expect(keyOf(change.Entry))
	case change.Kind == store.Upsert && b.updates != nil && l.r.status(change.Entry).Kind() == Pending:
		if key := keyOf(change.Entry); b.changes(key) {
			b.updates.expect(key)
		}
	}
}

// lookedAhead says that the feed has nothing more: what was expected of it has
// come, or never will.
func (b *blast) lookedAhead() {
	if b.scout == nil {
		return
	}
	b.scout.Close()
	b.scout = nil
	b.each(func(brake *brake) {
		b.relax = b.relax || len(brake.ahead) > 0
		clear(brake.ahead)
	})
}
