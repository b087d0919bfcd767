package reconciler

import (
	"iter"

	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/statedb"
)

// Status is how far a row is with its reconciler. It is part of the row, written
// by the reconciler alone, and comparable. The zero value is pending, so that a
// fresh row costs nothing. Kind, Since and Err tell it; it has the forms of text, JSON and
// YAML.
type Status = status.Status

// StatusKind is how far a row is, in one word.
type StatusKind = status.Kind

const (
	// Pending: the newest spec has not been applied yet. It is the zero value.
	Pending = status.Pending
	// Done: the newest spec has been applied.
	Done = status.Done
	// Error: the last attempt to apply the newest spec failed.
	Error = status.Error
)

// StatusSet holds the statuses of several reconcilers of a row, by name. A name
// that is absent is pending, so that the zero value says that all are. Get and With read
// and replace one; All yields those that are not pending.
//
// It is immutable and as small as a pointer: a row keeps it by value. Two sets
// are == if one was copied from the other; sets with the same statuses that came
// about separately need not be.
type StatusSet = status.Set

// Reconcilable is a row type that has a status. Its methods have value
// semantics: WithStatus returns a changed copy, also of a pointer row.
type Reconcilable[Obj any] interface {
	GetStatus() Status
	WithStatus(Status) Obj
}

// StatusField is where a row keeps the status of one reconciler. Both functions
// leave the row they get alone. Two reconcilers must not share a status: each would
// take what the other has done for its own.
type StatusField[Obj any] struct {
	Get func(Obj) Status
	Set func(Obj, Status) Obj
}

// Reconciled completes the schema of a table whose rows are reconciled: it sets
// Amend, so that ordinary writes carry the status along or reset it, and adds
// the status index.
func Reconciled[Obj Reconcilable[Obj]](schema statedb.Schema[Obj]) statedb.Schema[Obj] {
	schema.Amend = statedb.Amend[Obj]{
		Carry: func(from, to Obj) Obj { return to.WithStatus(from.GetStatus()) },
		Reset: func(obj Obj) Obj {
			if obj.GetStatus() == (Status{}) {
				return obj
			}
			return obj.WithStatus(Status{})
		},
	}
	schema.Secondary = append(schema.Secondary[:len(schema.Secondary):len(schema.Secondary)], NewStatusIndex[Obj]())
	return schema
}

// NewStatusIndex returns the index by which rows in error are found. Rows that
// are pending or done are not in it, so that it costs nothing while all is well.
func NewStatusIndex[Obj Reconcilable[Obj]]() statedb.Index[Obj, StatusKind] {
	one := func(yield func(StatusKind) bool) { yield(Error) }
	return statedb.NewMultiIndex(StatusIndexName, func(obj Obj) iter.Seq[StatusKind] {
		if obj.GetStatus().Kind() == Error {
			return one
		}
		return nil
	})
}
