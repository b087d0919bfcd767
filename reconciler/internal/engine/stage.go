package engine

// The stages of a row, beside the holds. Documentation/life-of-a-row.md shows how
// a row comes from one to another.
const (
	stageRest       = "rest"       // nothing is to be done, or was not read yet: no item
	stageRound      = "round"      // of the round under way: no item
	stageQueued     = "queued"     // in a lane
	stageRunning    = "running"    // in the hands of a worker
	stageStuck      = "stuck"      // still so, long after its deadline
	stageCommitting = "committing" // its outcome waits for the status commit
	stageBackoff    = "backoff"    // it failed, and is tried again
	stageTerminal   = "terminal"   // it failed, and repeating does not help
	stageAgain      = "again"      // its target asked for it
	stageDebounce   = "debounce"   // it may change again soon
	stageSettle     = "settle"     // it was applied, which what is observed has still to show
	stageUnread     = "unread"     // it is gone, which the feed has still to tell
)

// stage says where an item is on its way.
func (it *item) stage() string {
	switch {
	case it.state == queued:
		return stageQueued
	case it.state == committing:
		return stageCommitting
	case it.stuck:
		return stageStuck
	case it.state == running:
		return stageRunning
	case it.hold != holdNone:
		return it.hold.String()
	case it.debouncing:
		return stageDebounce
	case it.settling:
		return stageSettle
	case it.due.IsZero() && it.err == nil:
		return stageUnread
	case it.due.IsZero():
		return stageTerminal
	case it.err != nil:
		return stageBackoff
	default:
		return stageAgain
	}
}

// moved tells a test that an item has come to another stage.
func (q *queue) moved(it *item) {
	if q.onMove != nil {
		from := it.at
		it.at = it.stage()
		q.move(from, it.at)
	}
}

// move tells a test that a row has come to another stage.
func (q *queue) move(from, to string) {
	if q.onMove != nil && from != to {
		q.onMove(from, to)
	}
}
