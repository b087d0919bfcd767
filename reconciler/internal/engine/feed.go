package engine

import (
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// feed is the change feed of the table, with the changes read from it that are not items.
type feed struct {
	cursor      *store.Cursor
	round       round
	listing     listing
	startedAt   time.Time      // when it was first read
	startedFrom store.Revision // the revision of the table, then
	// refreshes are the failures of RefreshInterval, by encoded key.
	refreshes map[string]error
}

// wantsChanges reports whether more changes may be taken from the feed.
func (l *loop) wantsChanges() bool {
	return l.round.open == 0 && l.backlog() < l.r.roundSize()
}

// pull takes changes from the feed until there is a round of work.
func (l *loop) pull(now time.Time) {
	if !l.wantsChanges() {
		return
	}
	txn, size, taken, seen := l.r.p.DB.ReadTxn(), l.r.roundSize(), 0, l.cursor.Seen()
	l.round.begin(txn, now)
	if l.startedAt.IsZero() {
		l.startedAt, l.startedFrom = now, l.r.p.Table.Revision(txn)
	}
	l.waiters.readBefore = l.waiters.read
	for change := range l.cursor.Changes(txn) {
		l.limits.Take(change)
		l.changed(change, now)
		if taken++; taken >= size {
			break
		}
	}
	if taken < size {
		l.r.member.SetRead(l.r.p.Table.Revision(txn))
		l.limits.CountRows(txn, now)
	}
	l.limits.LookAhead(txn, taken >= size)
	l.round.ready()
	l.waiters.read = l.cursor.Seen()
	l.listing.follow(taken, seen, l.waiters.read, now)
}

// changed handles a record of the feed. A record is only a hint: the status of the newest row
// decides whether there is work.
func (l *loop) changed(change store.Change, now time.Time) {
	switch change.Kind {
	case store.Reset:
		l.plan.due = now
		l.lostDeletes(l.round.txn, now)
		return
	case store.Delete:
		l.changedItem(change, true, now)
		return
	case store.Upsert:
	}
	switch l.r.status(change.Entry).Kind() {
	case Pending:
		if it := l.queue.Items[string(change.Entry.Key())]; it != nil && it.Differs && it.Entry.Spec() == change.Entry.Spec() {
			it.Entry = change.Entry // it was reset because the row differs, which is known
		} else if l.simple(change.Entry) {
			l.round.add(change.Entry)
			l.queue.Pass(workqueue.Rest, workqueue.InRound)
		} else {
			l.changedItem(change, false, now)
		}
	case Error:
		if l.queue.Items[string(change.Entry.Key())] == nil {
			l.changedItem(change, false, now) // it was in error before the start
		}
	case Done:
		l.refreshLater(change.Entry, now)
	}
}

// simple reports whether a changed row can be applied at once, without an item.
func (l *loop) simple(e *store.Entry) bool {
	if l.r.pauses.Any() || l.r.p.Config.Debounce > 0 || l.limits.LimitsUpdates() {
		return false
	}
	if len(l.queue.Items) > 0 && l.queue.Items[string(e.Key())] != nil {
		return false
	}
	return !l.depends.Blocked(l.round.txn, e) && l.order.Replaced(l.round.txn, e) == nil
}

func (l *loop) changedItem(change store.Change, deleted bool, now time.Time) {
	it := l.queue.Get(keyOf(change.Entry))
	l.agrees(it) // any known drift was that of an older spec
	it.Entry = change.Entry
	it.Present = !deleted
	l.waiters.pendingSinceRead(it)
	if deleted {
		it.Attempts, it.Orphan = 0, false
		l.setDeleting(it, true)
		l.order.Note(it) // it may name other rows than before
	} else {
		l.isBack(it)
		l.order.Changed(it.Entry)
		l.limits.CountUpdate(it)
	}
	if !l.debounce(it, now) {
		l.enqueue(it, workqueue.Changes, workqueue.Change, now)
	}
	if it.Noted {
		l.notDone.note(it)
	}
}

// isBack ends the delete of an item whose row is back, unless the delete is running.
func (l *loop) isBack(it *workqueue.Item) {
	if it.Deleting && !it.Stage().InHand() {
		l.setDeleting(it, false)
		it.Orphan, it.Err = false, nil
		it.Attempts = 0
	}
}

// debounce makes a changed item wait until its row has been unchanged for a while, up to a limit.
func (l *loop) debounce(it *workqueue.Item, now time.Time) bool {
	c := &l.r.p.Config
	if c.Debounce <= 0 || it.Stage().InHand() {
		return false
	}
	if it.Since.IsZero() || it.Stage() != workqueue.Debounce {
		if it.Stage() == workqueue.Queued {
			return true // it will run with the newest row
		}
		it.Since = now
	}
	due := earliest(now.Add(c.Debounce), it.Since.Add(c.MaxDebounce))
	l.queue.Wait(it, workqueue.Debounce, due, "")
	it.Reasons |= workqueue.Change
	return true
}

// awaitsFeed reports whether an item's row is gone, but the feed has not delivered that yet.
func (l *loop) awaitsFeed(it *workqueue.Item, txn store.ReadTxn) bool {
	if !blocking(it) || !it.Present || it.Deleting || l.waiters.read >= l.r.p.Table.Revision(txn) {
		return false
	}
	return l.r.find(txn, it.Key) == nil
}

// awaitFeed makes an item wait until the feed delivers the delete of its row.
func (l *loop) awaitFeed(it *workqueue.Item) {
	it.Err = nil // the error was that of a row that no longer exists
	l.leaveFull(it)
	l.holdItem(it, hold.Reason{Stage: workqueue.Unread})
}

// lostDeletes deletes the rows whose deletes the feed has lost and which an item waits for.
// The others are found as orphans.
func (l *loop) lostDeletes(txn store.ReadTxn, now time.Time) {
	l.waiters.orphansFound, l.waiters.orphansKnown = false, false
	for _, key := range sortedKeys(l.queue.Items) {
		it := l.queue.Items[key]
		if it.Idle() && !it.Stage().Held() && it.Err == nil && l.awaitsFeed(it, txn) {
			l.setDeleting(it, true)
			l.enqueue(it, workqueue.Changes, workqueue.Change, now)
		}
	}
}

const (
	// roundPatience is how long a round may make no progress before its rows become items.
	roundPatience = 10 * time.Millisecond
	// roundLimit is how long a round may take before its rows become items in any case.
	roundLimit = 100 * time.Millisecond
)

// round is the changed rows from one read of the feed that need nothing but an Update. It is fast
// because their keys are in no map. Nothing else is read from the feed before each of them has
// its status, so that no row can be given to two workers. If a round takes long, its remaining
// rows become items.
type round struct {
	rows []pool.Task
	left [][]pool.Task // slices of rows that no worker has
	more int           // number of rows in left
	open int           // rows that are not complete
	txn  store.ReadTxn // the snapshot of the rows
	at   time.Time
	last time.Time // when a row last ended; initially at
}

// begin starts a new round of rows of txn.
func (r *round) begin(txn store.ReadTxn, now time.Time) {
	clear(r.rows)
	*r = round{rows: r.rows[:0], left: r.left[:0], txn: txn, at: now, last: now}
}

func (r *round) add(e *store.Entry) {
	r.rows = append(r.rows, pool.Task{Entry: e, Open: true})
}

// ready makes the rows available to workers.
func (r *round) ready() {
	r.open = len(r.rows)
	r.giveBack(r.rows)
}

// take returns up to n rows that no worker has.
func (r *round) take(n int) []pool.Task {
	part := r.left[0]
	if n < len(part) {
		r.left[0] = part[n:]
		part = part[:n]
	} else {
		r.left = r.left[1:]
	}
	r.more -= len(part)
	return part
}

func (r *round) giveBack(rows []pool.Task) {
	if len(rows) > 0 {
		r.left = append(r.left, rows)
		r.more += len(rows)
	}
}

// givenUpAt returns when the round is given up unless one of its rows ends before.
func (r *round) givenUpAt() time.Time {
	return earliest(r.last.Add(roundPatience), r.at.Add(roundLimit))
}

// giveUpRound makes items of the rows of the round that are not complete.
func (l *loop) giveUpRound(now time.Time) {
	l.collectAll(now)
	l.flush(now)
	for _, out := range l.commit.outcomes { // their table is locked by others
		if out.Open {
			l.adopt(out, workqueue.Committing)
			out.Open = false
		}
	}
	for _, w := range l.pool.All() {
		if b := w.Batch; b != nil && b.OfRound {
			l.round.giveBack(b.TakeBack())
			inHand := b.Uncollected()
			for i := range inHand {
				l.adopt(&inHand[i], workqueue.Running)
				inHand[i].Open = false
			}
			b.OfRound = false
		}
	}
	for _, part := range l.round.left {
		for i := range part {
			it := l.adopt(&part[i], workqueue.InRound)
			l.enqueue(it, workqueue.Changes, workqueue.Change, l.round.at)
			if l.rate.Holds(now) && l.untried(it) {
				l.limits.HoldBack(it.Key)
			}
		}
	}
	l.round = round{}
}

// closeRow removes a row from the open rows of the round.
func (l *loop) closeRow(out *pool.Task) {
	if out.Open {
		out.Open = false
		l.round.open--
	}
}

// adopt makes an item of a row of the round.
func (l *loop) adopt(out *pool.Task, stage workqueue.Stage) *workqueue.Item {
	it := l.queue.Adopt(keyOf(out.Entry))
	it.Entry = out.Entry
	it.Ran = workqueue.Change
	out.Item = it
	it.Present = true
	l.order.Changed(it.Entry)
	if stage != workqueue.InRound {
		l.queue.Move(it, stage)
	}
	l.waiters.pendingSinceRead(it)
	return it
}
