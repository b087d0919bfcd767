package health

import (
	"strconv"
	"strings"
	"time"
)

// maxRecent is how many changes of level a part keeps.
const maxRecent = 8

// Change is how a part was before.
type Change struct {
	Level   Level     `json:"level"`
	Since   time.Time `json:"since"` // when it became so
	Message string    `json:"message"`
	Error   string    `json:"error,omitempty"`
}

// String is one line for people.
func (c Change) String() string {
	text := c.Level.String() + " since " + c.Since.UTC().Format(time.RFC3339)
	for _, more := range []string{c.Message, c.Error} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// changed returns the changes that are kept with one more, the newest first. What is kept already stays as it is.
func changed(before *[]Change, last Status) *[]Change {
	all := []Change{{Level: last.Level, Since: last.Since, Message: last.Message, Error: last.Error}}
	if before != nil {
		all = append(all, (*before)[:min(len(*before), maxRecent-1)]...)
	}
	return &all
}

// ID is the id of a scope: that of an outermost one, and the names of those that lead from there to it.
func ID(outermost string, names ...string) string {
	for _, name := range names {
		outermost += "." + word(name)
	}
	return outermost
}

// word is a name as ids have it: quoted if it could be taken for more than one, or for a quoted one.
func word(name string) string {
	if strings.ContainsAny(name, `."`) {
		return strconv.Quote(name)
	}
	return name
}
