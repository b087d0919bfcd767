package health

import (
	"strconv"
	"strings"
	"time"
)

// maxRecent is the number of past changes of level kept per part.
const maxRecent = 8

// Change is a past state of a part.
type Change struct {
	Level   Level     `json:"level"`
	Since   time.Time `json:"since"` // when it entered this state
	Message string    `json:"message"`
	Error   string    `json:"error,omitempty"`
}

// String returns the change as one line of text.
func (c Change) String() string {
	text := c.Level.String() + " since " + c.Since.UTC().Format(time.RFC3339)
	for _, more := range []string{c.Message, c.Error} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// changed returns a copy of before with last added, newest first, and the oldest dropped beyond maxRecent.
func changed(before *[]Change, last Status) *[]Change {
	all := []Change{{Level: last.Level, Since: last.Since, Message: last.Message, Error: last.Error}}
	if before != nil {
		all = append(all, (*before)[:min(len(*before), maxRecent-1)]...)
	}
	return &all
}

// ID returns the id of a scope: the id of its outermost scope, followed by the names of the scopes nested in that.
func ID(outermost string, names ...string) string {
	for _, name := range names {
		outermost += "." + word(name)
	}
	return outermost
}

// word returns a name as it appears in ids: quoted if it could be mistaken for several names or for a quoted one.
func word(name string) string {
	if strings.ContainsAny(name, `."`) {
		return strconv.Quote(name)
	}
	return name
}
