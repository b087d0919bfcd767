package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

const (
	// recordPatience is the time for which an object may be without a record: a record is removed
	// before the table shows that its object is gone.
	recordPatience = time.Second
	// maxUnrecordedNames is the maximum number of objects that are named.
	maxUnrecordedNames = 10
)

// Unrecorded reports objects that carry the mark of this agent although there is no record of
// them, for example after the state directory was lost. They are left alone, because neither
// their purpose nor the previous state is known. All fields are required.
type Unrecorded[Row any] struct {
	DB *statedb.DB
	// Table has the existing objects; a [Mirror] keeps it.
	Table *statedb.Table[Row]
	// What is the plural noun for the objects, such as "links".
	What string
	// Name returns the name of an object.
	Name func(Row) string
	// Is reports whether a row is of an object with the mark and without a record. It is
	// called when the row has changed, and repeatedly while it returns true.
	Is func(Row) bool
	// Remedy says what to do about them.
	Remedy string
}

// Run reports to health until ctx ends, or the table is dropped.
func (u Unrecorded[Row]) Run(ctx context.Context, health reconciler.Health) error {
	cursor := u.Table.Changes(0)
	defer cursor.Close()
	check := time.NewTimer(0)
	defer check.Stop()
	found, reported, due := map[string]unrecorded[Row]{}, "-", true
	for cursor.Err() == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-cursor.Watch():
			u.read(cursor, found)
		case <-check.C:
			due = false
			maps.DeleteFunc(found, func(_ string, f unrecorded[Row]) bool { return !u.Is(f.row) })
			if text := u.text(found); text != reported {
				report(health, text)
				reported = text
			}
		}
		if !due && (len(found) > 0 || reported != "") {
			check.Reset(recordPatience)
			due = true
		}
	}
	return cursor.Err()
}

// unrecorded is an object without a record.
type unrecorded[Row any] struct {
	row   Row
	since time.Time
}

// read adds the changed objects that are unrecorded to found, and removes the others.
func (u Unrecorded[Row]) read(cursor *statedb.Cursor[Row], found map[string]unrecorded[Row]) {
	for change := range cursor.Next(u.DB.ReadTxn()) {
		if change.Kind == statedb.Reset {
			clear(found)
			continue
		}
		key := u.Table.Key(change.Object)
		if change.Kind != statedb.Upsert || !u.Is(change.Object) {
			delete(found, key)
			continue
		}
		f, known := found[key]
		if f.row = change.Object; !known {
			f.since = time.Now()
		}
		found[key] = f
	}
}

// text names the objects that have been without a record for long enough; it is empty if
// there are none.
func (u Unrecorded[Row]) text(found map[string]unrecorded[Row]) string {
	var names []string
	for _, f := range found {
		if time.Since(f.since) >= recordPatience {
			names = append(names, u.Name(f.row))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	more := ""
	if n := len(names) - maxUnrecordedNames; n > 0 {
		names, more = names[:maxUnrecordedNames], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s that carry our mark without a record: %s%s; %s", u.What, strings.Join(names, ", "), more, u.Remedy)
}

func report(health reconciler.Health, text string) {
	if text == "" {
		health.OK("all that carries our mark is recorded")
	} else {
		health.Degraded("unrecorded", errors.New(text))
	}
}
