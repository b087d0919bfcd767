// Package health keeps the health of every part of an application in a table.
//
// A part reports through a Health; each report replaces the part's row, unless nothing has changed. All methods are safe for
// concurrent use; the reports of a scope are written in order.
package health

import (
	"errors"
	"fmt"
	"time"

	"github.com/statehive/statehive/statedb"
)

// TableName is the name of the table of statuses.
const TableName = "health"

var (
	// ErrDuplicate is returned, wrapped, when a scope of that name is open.
	ErrDuplicate = errors.New("health scope exists already")
	// ErrClosed is returned, wrapped, when a scope is opened below one that has been closed.
	ErrClosed = errors.New("health scope is closed")
)

// Health reports the health of one scope. It is injectable; each module has its own, with its full id. The first report creates the
// row.
type Health interface {
	// OK reports that all is well.
	OK(message string)
	// Degraded reports a fault; err may be nil.
	Degraded(message string, err error)
	// Stopped reports that the part has ended and is not expected to do anything.
	Stopped(message string)
	// NewScope opens a scope nested in this one. It fails with ErrDuplicate if one of the same name is open, and with ErrClosed if
	// this one is closed.
	NewScope(name string) (Health, error)
	// Close removes the rows of this scope and those nested in it, and frees their names. Reports to a closed scope are ignored.
	Close()
}

// Level is the state of a part. The zero Level is not valid.
type Level uint8

// The levels.
const (
	OK Level = iota + 1
	Degraded
	Stopped
)

var levelNames = map[Level]string{OK: "OK", Degraded: "Degraded", Stopped: "Stopped"}

// String returns "OK", "Degraded" or "Stopped".
func (l Level) String() string {
	if name, ok := levelNames[l]; ok {
		return name
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// MarshalText returns the name of the level. It fails if the level is not valid.
func (l Level) MarshalText() ([]byte, error) {
	if name, ok := levelNames[l]; ok {
		return []byte(name), nil
	}
	return nil, fmt.Errorf("health: %v is not a level", l)
}

// UnmarshalText accepts only the names of the levels.
func (l *Level) UnmarshalText(text []byte) error {
	for level, name := range levelNames {
		if name == string(text) {
			*l = level
			return nil
		}
	}
	return fmt.Errorf("health: unknown level %q: expected OK, Degraded or Stopped", text)
}

// Status is a row of the table "health".
type Status struct {
	ID      string    `json:"id"`               // full module id and scope names, dotted; names that contain dots or quotes or clash with a module are quoted; the primary key
	Level   Level     `json:"level"`            // state of the part
	Since   time.Time `json:"since"`            // when it entered this level
	Updated time.Time `json:"updated"`          // when the row was written
	Message string    `json:"message"`          // as reported
	Error   string    `json:"error,omitempty"`  // the fault, of a degraded part
	Recent  *[]Change `json:"recent,omitempty"` // the last levels before this one, the newest first; not to be changed
}

// ByID is the primary index of the table.
func ByID() statedb.Index[Status, string] {
	return statedb.NewIndex("id", func(s Status) string { return s.ID })
}
