package engine

import (
	"fmt"
	"time"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Wait is something that a row waits for.
type Wait struct {
	// Cause is one of: nothing, turn, running, commit, stuck, backoff, again,
	// refresh, terminal, debounce, settle, rate, paused, limit, dependency, order, drift, prune, sources,
	// target, stopped; or what another hold is called.
	Cause string `json:"cause"`
	// Text says it in words, with the names of what is waited for.
	Text string `json:"text"`
	// Until is when it ends by itself, if that is known.
	Until time.Time `json:"until,omitzero"`
}

// The causes that are no stages.
const (
	waitNothing = "nothing"
	waitTurn    = "turn" // others are before it
	waitRunning = "running"
	waitCommit  = "commit" // it was applied, its status is about to be written
	waitStuck   = "stuck"
	waitRate    = "rate"    // the rate limit
	waitPrune   = "prune"   // nothing runs while the target is pruned
	waitSources = "sources" // the table is not initialized
	waitTarget  = "target"  // its Init fails
	waitStopped = "stopped" // the reconciler does not run
)

// terminalWait is what a row waits for after a terminal error.
const terminalWait = "terminal error: a new spec or a full pass"

const timeFormat = time.RFC3339

// waitOf says what an item waits for that is put aside.
func waitOf(it *workqueue.Item) Wait {
	due := it.Due()
	until, cause := due.Format(timeFormat), it.Stage().String()
	switch it.Stage() {
	case workqueue.Debounce:
		return Wait{cause, "debounce: until " + until + ", or longer if the row changes before", due}
	case workqueue.Settle:
		return Wait{cause, "what is observed of it to settle, and to be compared: until " + until, due}
	case workqueue.Unread:
		return Wait{Cause: waitTurn, Text: "its turn: a change has not been read yet"}
	case workqueue.Terminal:
		return Wait{Cause: cause, Text: terminalWait}
	case workqueue.Backoff:
		return Wait{cause, "backoff: until " + until, due}
	case workqueue.Refresh:
		return Wait{cause, "nothing but the time when it is applied again, as its refresh interval says: until " + until, due}
	case workqueue.Again:
		return Wait{cause, "until " + until + ", when its target wants it to be applied again", due}
	default:
		return Wait{Cause: cause, Text: cause + ": " + it.Detail(), Until: due}
	}
}

// runningWait says that an operation has begun and not returned.
func runningWait(what pool.Kind, since time.Time, timeout time.Duration, stuck bool) Wait {
	if stuck {
		text := fmt.Sprintf("%v has been stuck since %s: it has not returned, although its context has ended", what, since.Format(timeFormat))
		return Wait{Cause: waitStuck, Text: text}
	}
	return Wait{waitRunning, fmt.Sprintf("%v has been running since %s", what, since.Format(timeFormat)), since.Add(timeout)}
}
