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

// ChangeLimit bounds how many rows are changed within a window of time, so that a mistake in
// the desired state does not reach the whole target before anyone notices. Changes that exceed
// it are held and shown by [Reconciler.Plan], until they are approved with
// [Reconciler.Approve], or until so many are withdrawn that the rest is within the limit. Time
// alone releases nothing.
//
// If deletes come last (see DeletesLast in [Params]), a limit of deletes below 100 % also holds deletes after which any row of the
// [Group] would lack a row that it depends on.
type ChangeLimit struct {
	// The limit is exceeded if both Rows and Percent are exceeded. Percent is relative to the
	// rows in the table, including those to be deleted, but not those added within the window,
	// unless there were only Rows before. The defaults are 10 and 30.
	Rows    int
	Percent float64
	// Window is how long a change counts. All rows still to be changed, and the rows changed
	// within the window without an approval, are counted. The default is 1 minute.
	Window time.Duration
	// Off disables the limit.
	Off bool
}

// WithDefaults returns c with its zero fields set to their defaults.
func (c ChangeLimit) WithDefaults() ChangeLimit {
	setDefault(&c.Rows, 10)
	setDefault(&c.Percent, 30)
	setDefault(&c.Window, time.Minute)
	return c
}

// Check returns an error, which names the given field, if the limit is invalid.
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

// of returns how many of so many rows may be changed.
func (c ChangeLimit) of(rows int) int { return max(c.Rows, int(c.Percent*float64(rows)/100)) }

// String describes what exceeds the limit.
func (c ChangeLimit) String() string {
	return fmt.Sprintf("more than %d rows and %v %% of the table within %v", c.Rows, c.Percent, c.Window)
}

// Ignores reports whether an admitted operation need not be counted again although the status
// of its row has changed. It must be counted again only if the row was done and is now pending.
func (c ChangeLimit) Ignores(was, is status.Kind) bool {
	return c.Off || was == status.Pending || is != status.Pending
}

func setDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

// ChangeLimiter is the policy that holds operations that would change too many rows at once.
// Items are counted as soon as their operation is known. The limiter looks ahead in the feed,
// so that a large number of changes is held before the first of them runs.
type ChangeLimiter struct {
	owner            Owner
	dependents       dependentsCheck
	status           func(row *store.Entry) status.Status
	deletes, updates *counter // nil if there is no limit
	// applied has the keys of the rows applied since the start, if updates are limited.
	// Applying a row for the first time does not count as a change.
	applied map[string]struct{}
	ahead   lookAhead
	fewer   bool // a change was withdrawn since the last Relieve
	plans   plans
	memory  Memory    // may be nil
	retryAt time.Time // when to try again to store in memory what could not be stored; zero: all is stored
	changed bool      // the result of Unstored may have changed
	failed  error     // why it could not be stored
	// recalled reports whether deletes are held because they were when the previous run ended, or when orphans were last
	// known. Which ones is known when orphans have been searched for.
	recalled bool
	paused   bool                // see SetPaused
	heldBack map[string]struct{} // keys: see HoldBack
	created  int                 // rows that an update has created or changed, before orphans were searched for
	searched bool                // orphans have been searched for
}

// Memory remembers across restarts that deletes are held. Its methods are called from one goroutine.
type Memory interface {
	// DeletesHeld returns the value of the last successful call of SetDeletesHeld.
	DeletesHeld() *HeldDeletes
	// SetDeletesHeld stores that deletes are held; nil: none are. If it fails, the error is in the log and in health, and it
	// is called again later.
	SetDeletesHeld(held *HeldDeletes) error
}

// HeldDeletes is what a [Memory] stores. The zero value means that it is not known what was held, or that changes were paused: then the deletes
// of all orphans are held.
type HeldDeletes struct {
	// Done is how many other rows had been deleted within the window, Allowed how many may be without an approval.
	Done    int `json:"done"`
	Allowed int `json:"allowed"`
	// Stranding means that they are within the limit, and only held for the rows that they would strand.
	Stranding bool `json:"stranding,omitempty"`
}

// NewChangeLimiter returns a policy with a limit of deletes and a limit of updates. Either may be off. If neither member nor last is nil,
// deletes that would strand rows of the group of member are held, too. Memory may be nil.
func NewChangeLimiter(
	owner Owner, member *Member, last *DeletesLast, deletes, updates ChangeLimit, memory Memory, statusOf func(row *store.Entry) status.Status, now time.Time,
) *ChangeLimiter {
	l := &ChangeLimiter{
		owner: owner, dependents: dependentsCheck{member: member, last: last}, status: statusOf,
		deletes: newCounter(deletes, pool.Delete), updates: newCounter(updates, pool.Update),
		plans: plans{run: strconv.FormatInt(now.UnixMilli(), 36), current: 1}, memory: memory, heldBack: map[string]struct{}{},
	}
	if l.deletes != nil && memory != nil {
		if was := memory.DeletesHeld(); was != nil {
			l.recalled = true
			l.deletes.holdAt(was.Allowed, now)
			l.deletes.earlier, l.deletes.limited = was.Done, !was.Stranding
			l.deletes.unknown = *was == HeldDeletes{}
		}
	}
	if l.updates != nil {
		l.applied = map[string]struct{}{}
	}
	return l
}

// LimitsUpdates reports whether updates are limited.
func (l *ChangeLimiter) LimitsUpdates() bool { return l.updates != nil }

// each calls fn for each limit that is not off.
func (l *ChangeLimiter) each(fn func(*counter)) {
	for _, c := range []*counter{l.deletes, l.updates} {
		if c != nil {
			fn(c)
		}
	}
}

// CountDelete counts an item whose row is to be deleted.
func (l *ChangeLimiter) CountDelete(it *workqueue.Item) { l.count(it, l.deletes) }

// CountUpdate counts an item whose row has changed, unless a worker has the item: then Holds
// counts it before it runs again.
func (l *ChangeLimiter) CountUpdate(it *workqueue.Item) {
	if !it.Stage().InHand() && l.changes(it.Key) {
		l.count(it, l.updates)
	}
}

// changes reports whether the row was applied before, so that an update counts as a change.
func (l *ChangeLimiter) changes(key string) bool {
	_, was := l.applied[key]
	return was
}

// count adds an item to a counter, and removes it from the other one.
func (l *ChangeLimiter) count(it *workqueue.Item, by *counter) {
	if by == nil || by.claims[it.Key] != nil {
		return
	}
	l.Discount(it)
	if l.plans.current == l.plans.shown {
		l.plans.current++
	}
	by.claim(it, l.plans.current)
	l.dependents.stale = true
}

// Discount removes an item whose row is no longer to be changed.
func (l *ChangeLimiter) Discount(it *workqueue.Item) {
	if by, c := l.claimOf(it.Key); c != nil {
		l.fewer = l.fewer || c.state != approved
		by.giveUp(it.Key)
		l.dependents.stale = true
	}
}

// Forget removes an item whose delete is given up. It counts on, because that says nothing about the others that are held.
func (l *ChangeLimiter) Forget(it *workqueue.Item) {
	by, c := l.claimOf(it.Key)
	if c == nil || c.state != undecided || !by.holding {
		return
	}
	by.earlier++
	l.Discount(it)
	l.remember(by, time.Now())
}

// claimOf returns the claim of an item and the counter that it belongs to, or nil.
func (l *ChangeLimiter) claimOf(key string) (by *counter, c *claim) {
	l.each(func(each *counter) {
		if own := each.claims[key]; own != nil {
			by, c = each, own
		}
	})
	return by, c
}

// Succeeded records that an operation has changed a row.
func (l *ChangeLimiter) Succeeded(t *pool.Task, now time.Time) {
	if !l.searched && t.Kind == pool.Update && t.Was == status.Pending && t.Result.Changed {
		l.created++
	}
	it := t.Item
	if it == nil { // part of a round, so updates are not limited
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
	if c == nil || c.state == approved || c.state == admitted && by != l.deletes {
		return Reason{}, false
	}
	rows := l.owner.Table.Len(txn)
	exceeded := c.state == undecided && by.exceeded(rows)
	if !by.holding && by == l.deletes {
		if wait := l.dependents.check(by, txn, now); !wait.IsZero() && !exceeded {
			return Reason{workqueue.Order, "a check of the rows that depend on it", wait}, true
		}
	}
	if by.strands == "" && (c.state == admitted || !by.holding && !exceeded) {
		by.admit(c)
		return Reason{}, false
	}
	if c.state == admitted || !by.holding {
		l.plans.next() // who looked at a plan did not see it
	}
	by.retract(c) // it may have been admitted, and have waited for something else since
	if !by.holding {
		by.hold(rows, now)
		by.limited = exceeded
		l.remember(by, now)
		l.owner.Logger.Warn("changes are held until they are approved", "reconciler", l.owner.Name,
			"operation", by.kind.String(), "rows", by.len(), "why", by.why())
	} else if !by.limited && by.len() > by.allowed {
		by.limited = true
		l.remember(by, now)
	}
	return Reason{Stage: workqueue.Limit, Text: by.text()}, true
}

// release stops holding the changes of a counter.
func (l *ChangeLimiter) release(c *counter) {
	c.release()
	l.dependents.stale = true
	l.remember(c, time.Now())
}

// SetPaused records whether any rows are paused. A pause ends with the process. If there is one, the next process holds the deletes of all orphans,
// because the last versions of their rows, which may say what is to become of them, may not have been applied.
func (l *ChangeLimiter) SetPaused(paused bool) {
	l.setWaiting(func() { l.paused = paused })
}

// HoldBack records that a change of a row was paused until now, or waits for the limit of the rate. Until it has been tried, it counts like a pause.
func (l *ChangeLimiter) HoldBack(key string) {
	l.setWaiting(func() { l.heldBack[key] = struct{}{} })
}

// Tried records that an operation on a row has ended, or that it needs none.
func (l *ChangeLimiter) Tried(key string) {
	l.setWaiting(func() { delete(l.heldBack, key) })
}

// setWaiting remembers whether changes wait if that becomes different.
func (l *ChangeLimiter) setWaiting(change func()) {
	before := l.waiting()
	if change(); l.waiting() != before {
		l.remember(l.deletes, time.Now())
	}
}

func (l *ChangeLimiter) waiting() bool { return l.paused || len(l.heldBack) > 0 }

// retryMemory is how long to wait before what could not be stored is stored again.
const retryMemory = 10 * time.Second

// remember stores in the memory whether and how deletes are held.
func (l *ChangeLimiter) remember(c *counter, now time.Time) {
	if c == nil || c != l.deletes || l.memory == nil {
		return
	}
	held := c.held()
	if l.waiting() {
		held = &HeldDeletes{} // those of all orphans
	}
	err := l.memory.SetDeletesHeld(held)
	l.failed, l.changed = err, l.changed || err != nil || l.failed != nil
	if err == nil {
		l.retryAt = time.Time{}
		return
	}
	l.retryAt = now.Add(retryMemory)
	l.owner.Logger.Warn("cannot remember whether deletes are held: a restart would count anew", "reconciler", l.owner.Name, "held", c.holding, "error", err)
}

// NextTry returns when Expire has something to store, or dependents to check, or zero.
func (l *ChangeLimiter) NextTry() time.Time {
	next := l.retryAt
	if l.checksHeld() && (next.IsZero() || l.dependents.next.Before(next)) {
		next = l.dependents.next
	}
	return next
}

// Changed reports whether the result of Unstored may have changed since the last call of Changed.
func (l *ChangeLimiter) Changed() (changed bool) {
	changed, l.changed = l.changed, false
	return changed
}

// Unstored returns why Memory does not know whether deletes are held, or nil if it does.
func (l *ChangeLimiter) Unstored() error {
	if l.failed == nil {
		return nil
	}
	return fmt.Errorf("a restart would forget whether deletes are held: %w", l.failed)
}

// known reports whether all changes that a counter holds are known.
func (l *ChangeLimiter) known(c *counter) bool { return c != l.deletes || !l.recalled }

// Postponed records that orphans are not known any more, and reports whether some of them are held: they stay so until they are
// found again.
func (l *ChangeLimiter) Postponed() (held bool) {
	if l.deletes != nil && l.deletes.holding {
		l.recalled = true
	}
	return l.recalled
}

// CountRows counts the rows of txn, all of whose changes were taken from the feed.
func (l *ChangeLimiter) CountRows(txn store.ReadTxn, now time.Time) {
	rows := l.owner.Table.Len(txn)
	l.each(func(c *counter) { c.tally.found(c.all(rows), now) })
}

// countFound counts the orphans and the rows that existed when the reconciler started: those that are done, and that it has not
// created.
func (l *ChangeLimiter) countFound(now time.Time) {
	l.searched = true
	if l.deletes == nil {
		return
	}
	found := -l.created
	for row := range l.owner.Table.All(l.owner.DB.ReadTxn(), nil).Entries() {
		if l.status(row).Kind() == status.Done {
			found++
		}
	}
	l.deletes.tally.found(l.deletes.all(max(0, found)), now)
}

// Searched records that all orphans are known. Those that were held in the previous run, or when they were last known, still are.
// It stores so once more, because the record of the previous run may have been damaged.
func (l *ChangeLimiter) Searched(now time.Time) {
	if !l.searched {
		l.countFound(now)
	}
	if !l.recalled {
		return
	}
	l.recalled = false
	if l.deletes.undecided == 0 || l.deletes.unknown && !l.deletes.holdsOrphans() {
		l.fewer = l.fewer || l.deletes.undecided > 0
		l.release(l.deletes)
		return
	}
	if l.dependents.check(l.deletes, l.owner.DB.ReadTxn(), now); l.dependents.more {
		l.deletes.stranded, l.dependents.next, l.fewer = nil, time.Time{}, true // Relieve finds them again
	}
	l.fewer = l.fewer || !l.deletes.limited // what they would have stranded may be gone
	l.remember(l.deletes, now)
	l.owner.Logger.Warn("deletes that were held before are held until they are approved", "reconciler", l.owner.Name, "rows", l.deletes.undecided)
}

// Expire forgets changes older than the window, and stores what could not be stored before.
func (l *ChangeLimiter) Expire(now time.Time) {
	if !l.retryAt.IsZero() && !now.Before(l.retryAt) {
		l.remember(l.deletes, now)
	}
	l.each(func(c *counter) {
		c.tally.expire(now)
	})
	l.fewer = l.fewer || l.checksHeld() && !now.Before(l.dependents.next)
}

// Relieve stops holding changes that are within their limit again. It reports whether there were any, or whether the reason for which
// others are held has changed.
func (l *ChangeLimiter) Relieve(now time.Time) (relieved bool) {
	if !l.fewer {
		return false
	}
	l.fewer = false
	txn := l.owner.DB.ReadTxn()
	rows := l.owner.Table.Len(txn)
	l.each(func(c *counter) {
		if !c.holding || !l.known(c) {
			return
		}
		if c == l.deletes {
			if l.dependents.check(c, txn, now); l.dependents.more {
				l.plans.next() // who looked at the plan did not see all
			}
			relieved = relieved || l.dependents.news // the reasons are outdated
		}
		if c.undecided == 0 || !c.exceeded(rows) && c.strands == "" {
			l.release(c)
			l.dependents.next = now // the check was just made
			relieved = true
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

// Held describes the changes held by one limit.
type Held struct {
	Kind  pool.Kind
	Items int
	Since time.Time
	Limit string // that is exceeded
	Why   string // they are held
}

// Held returns the held changes of each limit that is exceeded.
func (l *ChangeLimiter) Held() (held []Held) {
	l.each(func(c *counter) {
		if c.holding && c.undecided > 0 {
			held = append(held, Held{c.kind, c.undecided, c.since, c.limit.String(), c.why()})
		}
	})
	return held
}

// HeldItems returns the numbers of held deletes and updates.
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

// HeldKind returns the kind of an item's operation if the item is held.
func (l *ChangeLimiter) HeldKind(key string) (kind pool.Kind, held bool) {
	by, c := l.claimOf(key)
	if c == nil || !by.holding || c.state != undecided {
		return 0, false
	}
	return by.kind, true
}
