// Package health keeps the state of health of every part of an application in a table.
//
// A part reports through a Health; each report replaces the part's row. A report that changes nothing writes nothing. All
// methods may be called by several goroutines at once.
package health

import (
	"errors"
	"fmt"
	"time"
)

// ErrDuplicate is returned by NewScope, wrapped, when a scope of that name is open.
var ErrDuplicate = errors.New("health scope exists already")

// Health reports the health of one scope. It is injectable; each module has its own, named by its full id.
type Health interface {
	// OK reports that all is well.
	OK(message string)
	// Degraded reports a fault; err may be nil.
	Degraded(message string, err error)
	// Stopped reports that the part has ended and is not expected to do anything.
	Stopped(message string)
	// NewScope opens a scope below this one. It fails with ErrDuplicate if one of that name is open.
	NewScope(name string) (Health, error)
	// Close removes the rows of this scope and of those below it and frees their names. Reports to a closed scope are ignored.
	Close()
}

// Level is how a part is. The zero Level is none of the valid ones.
type Level uint8

// The levels.
const (
	OK Level = iota + 1
	Degraded
	Stopped
)

// Status is a row of the table "health".
type Status struct {
	ID      string    `json:"id"`      // full module id and scopes, dotted: the primary key
	Level   Level     `json:"level"`   //
	Since   time.Time `json:"since"`   // when the level was taken
	Updated time.Time `json:"updated"` // when the row was written
	Message string    `json:"message"`
	Error   string    `json:"error,omitempty"`
}

// String is "OK", "Degraded" or "Stopped".
func (l Level) String() string {
	switch l {
	case OK:
		return "OK"
	case Degraded:
		return "Degraded"
	case Stopped:
		return "Stopped"
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}
