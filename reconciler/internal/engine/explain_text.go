package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// String returns the explanation as text, with a line for each fact.
func (e Explanation) String() string {
	var text strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&text, "%-14s%s\n", name+":", fmt.Sprintf(format, args...))
	}
	line("row", "%s %s", e.Table, e.Key)
	line("reconciler", "%s", e.Reconciler)
	if e.Exists {
		line("status", "%s", e.statusText())
		line("spec", "of revision %d", e.Spec)
		line("written by", "%s", e.writtenBy())
	} else {
		line("status", "deleted from the table, and still to be deleted by the target")
	}
	if e.Queued {
		line("queued", "%s", e.queuedText())
	} else {
		line("queued", "no")
	}
	for _, wait := range e.WaitsFor {
		line("waits for", "%s", wait.Text)
	}
	if !e.NextDue.IsZero() {
		line("next due", "%s", e.NextDue.Format(timeFormat))
	}
	if e.LastError != "" && !strings.Contains(e.statusText(), e.LastError) {
		line("last error", "%s", e.LastError)
	}
	if e.Attempts > 0 {
		line("failed", "%d in a row", e.Attempts)
	}
	if e.Drifted > 0 {
		line("drifted", "repaired %d times lately, the last time %s", e.Drifted, e.LastDrift.Format(timeFormat))
	}
	for _, a := range e.LastAttempts {
		line("attempt", "%v", a)
	}
	return text.String()
}

func (e Explanation) statusText() string {
	text := e.Status.String()
	if since := e.Status.Since(); !since.IsZero() {
		text = fmt.Sprintf("%v since %s", e.Status.Kind(), since.Format(timeFormat))
		if err := e.Status.Err(); err != nil {
			text += ": " + err.Error()
		}
	}
	return text
}

// writtenBy returns the origin if it is known, or else the sources that may have written the row.
func (e Explanation) writtenBy() string {
	if e.Origin != "" {
		return e.Origin
	}
	names := make([]string, len(e.Sources))
	for i, s := range e.Sources {
		names[i] = s.Name
	}
	switch len(names) {
	case 0:
		return "no source: the table has none"
	case 1:
		return "unknown; the table's source is " + names[0]
	default:
		return "unknown; the table's sources are " + strings.Join(names, ", ")
	}
}

func (e Explanation) queuedText() string {
	text := "yes"
	if e.Class != "" {
		text += ", in class " + e.Class
	}
	if e.Reasons != "" {
		text += ", because of " + strings.ReplaceAll(e.Reasons, ",", ", ")
	}
	if !e.Since.IsZero() {
		text += ", since " + e.Since.Format(timeFormat)
	}
	return text
}

// Wait is something that a row waits for.
type Wait struct {
	// Cause is one of: nothing, turn, running, commit, stuck, backoff, again, refresh, terminal,
	// debounce, settle, rate, paused, limit, dependency, order, drift, prune, sources, target,
	// stopped.
	Cause string `json:"cause"`
	// Text describes it, naming what the row waits for.
	Text string `json:"text"`
	// Until is when the wait ends by itself, if known.
	Until time.Time `json:"until,omitzero"`
}

// The causes that are not stages of package workqueue.
const (
	waitNothing = "nothing"
	waitTurn    = "turn" // other rows come before it
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

// waitOf returns what a waiting item waits for.
func waitOf(it *workqueue.Item) Wait {
	due := it.Due()
	until, cause := due.Format(timeFormat), it.Stage().String()
	switch it.Stage() {
	case workqueue.Debounce:
		return Wait{cause, "debounce: until " + until + ", or longer if the row changes before then", due}
	case workqueue.Settle:
		return Wait{cause, "the observed state to settle before it is compared: until " + until, due}
	case workqueue.Unread:
		return Wait{Cause: waitTurn, Text: "its turn: a change has not been read yet"}
	case workqueue.Terminal:
		return Wait{Cause: cause, Text: terminalWait}
	case workqueue.Backoff:
		return Wait{cause, "backoff: until " + until, due}
	case workqueue.Refresh:
		return Wait{cause, "its next refresh: until " + until, due}
	case workqueue.Again:
		return Wait{cause, "until " + until + ", when it is applied again as its target requested", due}
	default:
		return Wait{Cause: cause, Text: cause + ": " + it.Detail(), Until: due}
	}
}

// runningWait describes an operation that has begun and not returned.
func runningWait(what pool.Kind, since time.Time, timeout time.Duration, stuck bool) Wait {
	if stuck {
		text := fmt.Sprintf("%v has been stuck since %s: it has not returned, although its context has ended", what, since.Format(timeFormat))
		return Wait{Cause: waitStuck, Text: text}
	}
	return Wait{waitRunning, fmt.Sprintf("%v has been running since %s", what, since.Format(timeFormat)), since.Add(timeout)}
}
