package engine

import (
	"fmt"
	"strings"
)

// String is the explanation for people, a line for each thing that is known.
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

// writtenBy is the origin if it is known, else the sources that may have written.
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
		return "not known; the table's source is " + names[0]
	default:
		return "not known; the table's sources are " + strings.Join(names, ", ")
	}
}

func (e Explanation) queuedText() string {
	text := "yes"
	if e.Lane != "" {
		text += ", in lane " + e.Lane
	}
	if e.Reasons != "" {
		text += ", because of " + strings.ReplaceAll(e.Reasons, ",", ", ")
	}
	if !e.Since.IsZero() {
		text += ", since " + e.Since.Format(timeFormat)
	}
	return text
}
