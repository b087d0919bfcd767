package hold

import (
	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/status"
)

// lookAhead counts what the feed has behind what was taken from it.
type lookAhead struct {
	cursor *store.Cursor  // nil: that is not needed
	from   store.Revision // where it has to begin: of the last change taken that may count
}

// Take notes a change that was taken from the feed.
func (l *ChangeLimiter) Take(change store.Change) {
	if change.Kind == store.Delete || l.updates != nil {
		l.ahead.from = change.Revision
	}
}

// LookAhead counts the changes that are still in the feed, if there are more and something is
// to be decided. What was counted is not looked at again.
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
		l.deletes.expect(string(change.Entry.Key()))
	case change.Kind == store.Upsert && l.updates != nil && l.status(change.Entry).Kind() == status.Pending:
		if key := string(change.Entry.Key()); l.changes(key) {
			l.updates.expect(key)
		}
	}
}

// LooksAhead reports whether there is a cursor ahead in the feed.
func (l *ChangeLimiter) LooksAhead() bool { return l.ahead.cursor != nil }

// StopLookingAhead ends what LookAhead began: what was expected of the feed has come, or never
// will.
func (l *ChangeLimiter) StopLookingAhead() {
	if l.ahead.cursor == nil {
		return
	}
	l.ahead.cursor.Close()
	l.ahead.cursor = nil
	l.each(func(c *counter) {
		l.fewer = l.fewer || len(c.ahead) > 0
		clear(c.ahead)
	})
}
