package hold

import (
	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/status"
)

// lookAhead is the state of looking ahead in the feed.
type lookAhead struct {
	cursor *store.Cursor  // nil when not looking ahead
	from   store.Revision // where to begin: the last change taken from the feed that may count
}

// Take records a change that was taken from the feed.
func (l *ChangeLimiter) Take(change store.Change) {
	if change.Kind == store.Delete || l.updates != nil {
		l.ahead.from = change.Revision
	}
}

// LookAhead counts the changes that are still in the feed, if there are more and an item is
// undecided. It counts each change once.
func (l *ChangeLimiter) LookAhead(txn store.ReadTxn, more bool) {
	if !more {
		l.StopLookingAhead()
		return
	}
	if l.ahead.cursor == nil {
		deciding := false
		l.each(func(c *counter) { deciding = deciding || c.deciding() })
		if !deciding {
			return
		}
		l.ahead.cursor = l.owner.Table.Changes(l.ahead.from)
	}
	for change := range l.ahead.cursor.Changes(txn) {
		l.expect(change)
	}
}

func (l *ChangeLimiter) expect(change store.Change) {
	switch {
	case change.Kind == store.Delete && l.deletes != nil:
		l.deletes.tally.expect(string(change.Entry.Key()))
	case change.Kind == store.Upsert && l.updates != nil && l.status(change.Entry).Kind() == status.Pending:
		if key := string(change.Entry.Key()); l.changes(key) {
			l.updates.tally.expect(key)
		}
	}
}

// LooksAhead reports whether a cursor is ahead in the feed.
func (l *ChangeLimiter) LooksAhead() bool { return l.ahead.cursor != nil }

// StopLookingAhead closes the cursor of LookAhead and forgets the changes that it counted: they
// have been taken from the feed by now, or never will be.
func (l *ChangeLimiter) StopLookingAhead() {
	if l.ahead.cursor == nil {
		return
	}
	l.ahead.cursor.Close()
	l.ahead.cursor = nil
	l.each(func(c *counter) { l.fewer = c.tally.forgetAhead() || l.fewer })
}
