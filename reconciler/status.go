package reconciler

import (
	"iter"

	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/statedb"
)

// Status is the state of a row with respect to one reconciler. It is part of the row, written
// only by the reconciler, and comparable. The zero value is pending, so that a new row costs
// nothing. Its methods Kind, Since and Err return the details. It can be encoded as text, JSON
// and YAML; JSON and YAML can also be decoded.
type Status = status.Status

// StatusKind is the state of a row with respect to its reconciler.
type StatusKind = status.Kind

const (
	// Pending: the newest spec has not been applied yet. It is the zero value.
	Pending = status.Pending
	// Done: the newest spec has been applied.
	Done = status.Done
	// Error: the last attempt to apply the newest spec failed.
	Error = status.Error
)

// StatusSet holds the statuses of a row with several reconcilers, by name. The status of a name
// that is absent is pending, so the zero value is the set in which all are pending. Get returns
// a status, With replaces one, and All yields those that are not pending.
//
// A StatusSet is immutable and has the size of a pointer, so that a row can hold it by value. Two
// sets are == if one is a copy of the other; sets that were built separately may differ even if
// they hold the same statuses.
type StatusSet = status.Set

// Reconcilable is implemented by row types that have a status. WithStatus returns a changed copy
// and leaves the row unchanged, even if the row type is a pointer.
type Reconcilable[Obj any] interface {
	GetStatus() Status
	WithStatus(Status) Obj
}

// StatusField is where a row holds the status of one reconciler. Set returns a changed copy;
// neither function may modify the row. Two reconcilers must not share a status: each would
// mistake the results of the other for its own.
type StatusField[Obj any] struct {
	Get func(Obj) Status
	Set func(Obj, Status) Obj
}

// Reconciled completes the schema of a table whose rows are reconciled. It sets Amend, so that
// ordinary writes keep the status or reset it, and adds the status index.
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

// NewStatusIndex returns the index of the rows in error. Rows that are pending or done are not
// in it, so that it costs nothing while there are no errors.
func NewStatusIndex[Obj Reconcilable[Obj]]() statedb.Index[Obj, StatusKind] {
	one := func(yield func(StatusKind) bool) { yield(Error) }
	return statedb.NewMultiIndex(StatusIndexName, func(obj Obj) iter.Seq[StatusKind] {
		if obj.GetStatus().Kind() == Error {
			return one
		}
		return nil
	})
}
