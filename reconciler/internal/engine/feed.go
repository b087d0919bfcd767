package engine

import (
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// feed is what is read from the table, and what came of it that is no item.
type feed struct {
	cursor  *store.Cursor
	round   round
	listing listing
	// refreshes are why it is not known when rows are applied again, by encoded key.
	refreshes map[string]error
}

// hungry says that more changes may be taken from the feed.
func (l *loop) hungry() bool {
	return l.round.open == 0 && l.backlog() < l.r.roundSize()
}

// pull takes changes from the feed until there is a round of work.
func (l *loop) pull(now time.Time) {
	if !l.hungry() {
		return
	}
	txn, size, taken, seen := l.r.p.DB.ReadTxn(), l.r.roundSize(), 0, l.cursor.Seen()
	l.round.begin(txn, now)
	l.waits.from = l.waits.pulled
	for change := range l.cursor.Changes(txn) {
		l.limits.Take(change)
		l.changed(change, now)
		if taken++; taken >= size {
			break
		}
	}
	if taken < size {
		l.r.member.SetRead(l.r.p.Table.Revision(txn))
	}
	l.limits.LookAhead(txn, taken >= size)
	l.round.ready()
	l.waits.pulled = l.cursor.Seen()
	l.listing.follow(taken, seen, l.waits.pulled, now)
}

// changed queues what a record of the feed makes necessary. A record is only a
// hint: the status on the newest row decides whether there is work.
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
			it.Entry = change.Entry // its status was reset because it differs, which is known
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

// simple says that a changed row needs nothing but to be applied at once.
func (l *loop) simple(e *store.Entry) bool {
	if l.r.pauses.Any() || l.r.p.Config.Debounce > 0 || l.limits.LimitsUpdates() {
		return false
	}
	if len(l.queue.Items) > 0 && l.queue.Items[string(e.Key())] != nil {
		return false
	}
	return !l.depends.Blocked(l.round.txn, e)
}

func (l *loop) changedItem(change store.Change, deleted bool, now time.Time) {
	it := l.queue.Get(keyOf(change.Entry))
	l.agrees(it) // what was known of an older spec
	it.Entry = change.Entry
	it.Present = !deleted
	l.waits.owe(it)
	if deleted {
		it.Attempts, it.Orphan = 0, false
		l.setDeleting(it, true)
		l.order.Note(it) // it may name others than before
	} else {
		l.isBack(it)
		l.limits.CountUpdate(it)
	}
	if !l.debounce(it, now) {
		l.enqueue(it, workqueue.Changes, workqueue.Change, now)
	}
	if it.Noted {
		l.ledger.note(it)
	}
}

// isBack ends the delete of an item whose row is there again, unless the target has it.
func (l *loop) isBack(it *workqueue.Item) {
	if it.Deleting && !it.Stage().InHand() {
		l.setDeleting(it, false)
		it.Orphan, it.Err = false, nil
		it.Attempts = 0
	}
}

// debounce puts a changed item aside until its row has stayed as it is for a
// time, but not for ever.
func (l *loop) debounce(it *workqueue.Item, now time.Time) bool {
	c := &l.r.p.Config
	if c.Debounce <= 0 || it.Stage().InHand() {
		return false
	}
	if it.Since.IsZero() || it.Stage() != workqueue.Debounce {
		if it.Stage() == workqueue.Queued {
			return true // it is about to run, with the newest row
		}
		it.Since = now
	}
	due := earliest(now.Add(c.Debounce), it.Since.Add(c.MaxDebounce))
	l.queue.Wait(it, workqueue.Debounce, due, "")
	it.Reasons |= workqueue.Change
	return true
}
