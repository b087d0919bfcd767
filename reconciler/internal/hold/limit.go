package hold

import (
	"fmt"
	"strconv"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// ChangeLimit bounds how many rows are changed within a time, so that a mistake
// in what is desired does not reach the whole target before someone has seen it.
// Changes beyond it are held, and shown by [Reconciler.Plan], until [Reconciler.Approve], or
// until enough of them are withdrawn that the rest is within the limit. The mere passing of
// time releases nothing.
type ChangeLimit struct {
	// The limit is exceeded if both Rows and Percent are. Percent is relative to the rows in
	// the table, including those to be deleted. Defaults 10 and 30.
	Rows    int
	Percent float64
	// Window is how long a change counts: the rows changed within it without an approval, and
	// all rows still to be changed. Default 1 minute.
	Window time.Duration
	// Off disables the limit.
	Off bool
}

// WithDefaults returns the limit with defaults for its zero fields.
func (c ChangeLimit) WithDefaults() ChangeLimit {
	setDefault(&c.Rows, 10)
	setDefault(&c.Percent, 30)
	setDefault(&c.Window, time.Minute)
	return c
}

// Check returns an error if the limit, in the given field, is invalid.
func (c ChangeLimit) Check(field string) error {
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

// String describes the changes that exceed the limit.
func (c ChangeLimit) String() string {
	return fmt.Sprintf("more than %d rows and %v %% of the table within %v", c.Rows, c.Percent, c.Window)
}

// Ignores reports whether the limit is unaffected if a row's status has changed since its operation
// was let through. Only a row that was done and is pending now has to be counted again.
func (c ChangeLimit) Ignores(was, is status.Kind) bool {
	return c.Off || was == status.Pending || is != status.Pending
}

func setDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

// ChangeLimiter is the policy that holds operations that would change too many rows at once.
// Items are counted as soon as their operation is known. The limiter looks ahead in the feed, so
// that a mass of changes is held before the first of them runs.
type ChangeLimiter struct {
	owner            Owner
	status           func(row *store.Entry) status.Status
	deletes, updates *counter // nil if there is no limit
	// applied has the keys of rows that were applied since the start, if updates are
	// limited: to apply a row for the first time is not to change it.
	applied map[string]struct{}
	ahead   lookAhead
	fewer   bool // a change was withdrawn since the last Relieve
	plans   plans
}

// plans numbers the plans, so that only changes that were shown can be approved.
type plans struct {
	run     string // distinguishes the plans of different runs
	current uint64 // the plan of the next change held
	shown   uint64 // the last plan shown and not approved, or 0
}

// NewChangeLimiter returns a policy with two limits, one of which may be off.
func NewChangeLimiter(
	owner Owner, deletes, updates ChangeLimit, statusOf func(row *store.Entry) status.Status, now time.Time,
) *ChangeLimiter {
	l := &ChangeLimiter{
		owner: owner, status: statusOf, deletes: newCounter(deletes, pool.Delete), updates: newCounter(updates, pool.Update),
		plans: plans{run: strconv.FormatInt(now.UnixMilli(), 36), current: 1},
	}
	if l.updates != nil {
		l.applied = map[string]struct{}{}
	}
	return l
}

// LimitsUpdates reports whether there is a limit of updates.
func (l *ChangeLimiter) LimitsUpdates() bool { return l.updates != nil }

// each calls fn for the limits that there are.
func (l *ChangeLimiter) each(fn func(*counter)) {
	for _, c := range []*counter{l.deletes, l.updates} {
		if c != nil {
			fn(c)
		}
	}
}

// CountDelete counts an item whose row is to be deleted.
func (l *ChangeLimiter) CountDelete(it *workqueue.Item) { l.count(it, l.deletes) }

// CountUpdate counts an item whose row has changed. If it is in hand that has to wait for the
// next look at it.
func (l *ChangeLimiter) CountUpdate(it *workqueue.Item) {
	if !it.Stage().InHand() && l.changes(it.Key) {
		l.count(it, l.updates)
	}
}

// changes reports whether an update of a row would change what was applied before.
func (l *ChangeLimiter) changes(key string) bool {
	_, was := l.applied[key]
	return was
}

// count has an item counted once, by one counter.
func (l *ChangeLimiter) count(it *workqueue.Item, by *counter) {
	if by == nil || by.claims[it.Key] != nil {
		return
	}
	l.Discount(it)
	if l.plans.current == l.plans.shown {
		l.plans.current++
	}
	by.claim(it.Key, l.plans.current)
}

// Discount forgets an item that is not to be changed any more.
func (l *ChangeLimiter) Discount(it *workqueue.Item) {
	if by, c := l.claimOf(it.Key); c != nil {
		l.fewer = l.fewer || c.state != approved
		by.giveUp(it.Key)
	}
}

// claimOf returns the claim of an item and who counts it, or nil.
func (l *ChangeLimiter) claimOf(key string) (by *counter, c *claim) {
	l.each(func(each *counter) {
		if own := each.claims[key]; own != nil {
			by, c = each, own
		}
	})
	return by, c
}

// Succeeded counts an operation that has changed a row.
func (l *ChangeLimiter) Succeeded(t *pool.Task, now time.Time) {
	it := t.Item
	if it == nil { // of a round: updates are not limited
		return
	}
	if l.applied != nil {
		if t.Kind == pool.Update {
			l.applied[it.Key] = struct{}{}
		} else {
			delete(l.applied, it.Key)
		}
	}
	if by, c := l.claimOf(it.Key); c != nil && by.kind == t.Kind {
		by.succeeded(it.Key, now)
	}
}

// Holds implements [Policy].
func (l *ChangeLimiter) Holds(t *pool.Task, txn store.ReadTxn, now time.Time) (Reason, bool) {
	it := t.Item
	if t.Kind == pool.Update && (t.Was == status.Pending || it.Differs) {
		l.CountUpdate(it)
	}
	by, c := l.claimOf(it.Key)
	if c == nil || c.state != undecided {
		return Reason{}, false
	}
	if !by.holding {
		if !by.exceeded(l.owner.Table.Len(txn)) {
			by.admit(c)
			return Reason{}, false
		}
		by.holding, by.since = true, now
		l.owner.Logger.Warn("too many changes are held until they are approved", "reconciler", l.owner.Name,
			"operation", by.kind.String(), "rows", by.len(), "limit", by.limit.String())
	}
	return Reason{Stage: workqueue.Limit, Text: by.text}, true
}

// Expire forgets what was changed before the window.
func (l *ChangeLimiter) Expire(now time.Time) {
	l.each(func(c *counter) { c.expire(now) })
}

// Relieve ends what is within its limit again, and reports whether there was any.
func (l *ChangeLimiter) Relieve() (relieved bool) {
	if !l.fewer {
		return false
	}
	l.fewer = false
	rows := l.owner.Table.Len(l.owner.DB.ReadTxn())
	l.each(func(c *counter) {
		if c.holding && (c.undecided == 0 || !c.exceeded(rows)) {
			c.holding, relieved = false, true
		}
	})
	if !l.holding() {
		l.plans.next()
	}
	return relieved
}

func (l *ChangeLimiter) holding() (holding bool) {
	l.each(func(c *counter) { holding = holding || c.holding })
	return holding
}

// Held is what is held because of one limit.
type Held struct {
	Kind  pool.Kind
	Items int
	Since time.Time
	Limit ChangeLimit
}

// Held returns what is held because of each limit that is exceeded.
func (l *ChangeLimiter) Held() (held []Held) {
	l.each(func(c *counter) {
		if c.holding {
			held = append(held, Held{c.kind, c.undecided, c.since, c.limit})
		}
	})
	return held
}

// HeldItems returns how many deletes and updates are held.
func (l *ChangeLimiter) HeldItems() (deletes, updates int) {
	for _, h := range l.Held() {
		if h.Kind == pool.Delete {
			deletes = h.Items
		} else {
			updates = h.Items
		}
	}
	return deletes, updates
}

// HeldKind returns the kind of an item's operation if it is held.
func (l *ChangeLimiter) HeldKind(key string) (kind pool.Kind, held bool) {
	by, c := l.claimOf(key)
	if c == nil || !by.holding || c.state != undecided {
		return 0, false
	}
	return by.kind, true
}

// PlanID returns the id of the plan that what is held belongs to.
func (l *ChangeLimiter) PlanID() string { return l.plans.id(l.plans.current) }

// ShowPlan returns the id of the plan, which can be approved from now on.
func (l *ChangeLimiter) ShowPlan() string {
	l.plans.shown = l.plans.current
	return l.PlanID()
}

// Approve lets through what is held of the plan that was shown last, and returns how much that
// is. It reports false if the id is of another plan.
func (l *ChangeLimiter) Approve(id string) (items int, ok bool) {
	if l.plans.shown == 0 || id != l.plans.id(l.plans.shown) {
		return 0, false
	}
	l.each(func(c *counter) {
		if c.holding {
			items += c.approve(l.plans.shown)
			c.holding = c.undecided > 0
		}
	})
	l.plans.next()
	return items, true
}

func (p *plans) id(plan uint64) string { return p.run + "-" + strconv.FormatUint(plan, 10) }

// next makes a plan that was shown one that cannot be approved any more.
func (p *plans) next() { p.current, p.shown = max(p.current, p.shown+1), 0 }
