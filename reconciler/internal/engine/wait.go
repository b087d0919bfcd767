package engine

import (
	"fmt"
	"time"
)

// Wait is something that a row waits for.
type Wait struct {
	// Cause is one of: nothing, turn, running, commit, stuck, backoff, again,
	// terminal, debounce, settle, rate, paused, limit, dependency, order, drift, prune, sources,
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
	waitRunning = stageRunning
	waitCommit  = "commit" // it was applied, its status is about to be written
	waitStuck   = stageStuck
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
func waitOf(it *item) Wait {
	until := it.due.Format(timeFormat)
	switch stage := it.stage(); stage {
	case stageDebounce:
		return Wait{stage, "debounce: until " + until + ", or longer if the row changes before", it.due}
	case stageSettle:
		return Wait{stage, "what is observed of it to settle, and to be compared: until " + until, it.due}
	case stageUnread:
		return Wait{Cause: waitTurn, Text: "its turn: a change has not been read yet"}
	case stageTerminal:
		return Wait{Cause: stage, Text: terminalWait}
	case stageBackoff:
		return Wait{stage, "backoff: until " + until, it.due}
	case stageAgain:
		return Wait{stage, "until " + until + ", when its target wants it to be applied again", it.due}
	default:
		return Wait{Cause: stage, Text: stage + ": " + it.waitsFor, Until: it.due}
	}
}

// runningWait says that an operation has begun and not returned.
func runningWait(what opKind, since time.Time, timeout time.Duration, stuck bool) Wait {
	if stuck {
		text := fmt.Sprintf("%v has been stuck since %s: it has not returned, although its context has ended", what, since.Format(timeFormat))
		return Wait{Cause: waitStuck, Text: text}
	}
	return Wait{waitRunning, fmt.Sprintf("%v has been running since %s", what, since.Format(timeFormat)), since.Add(timeout)}
}
