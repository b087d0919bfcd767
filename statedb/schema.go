package statedb

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
)

// Schema declares a table. Name and Primary are required; the zero value of
// every other field is a sensible default.
type Schema[Obj any] struct {
	// Name of the table: lower-case letters, digits and dashes. It is unique in
	// its database.
	Name string
	// Primary is the unique index that identifies a row. It has one key per row.
	Primary Indexer[Obj]
	// Secondary lists further indexes. Several rows may share a key, unless the
	// index is one of [Index.Unique].
	Secondary []Indexer[Obj]
	// Equal tells whether two rows with the same primary key say the same, so
	// that writing the second over the first is a no-op. When nil it is == for
	// comparable types that are not pointers (and hold neither interfaces nor
	// floats), else the method Equal(Obj) bool of the row type; without either,
	// every write is a change.
	Equal func(a, b Obj) bool
	// Defaulters complete a row before it is written, each what the one before
	// returned: a changed copy if obj is a pointer. They may set the primary key,
	// except in Modify. Validators then decide whether the row is accepted; they
	// do not run when nothing would change. Both run inside the write, in order,
	// and for writes of spec only: not for Amend, nor for deletes. An error is a
	// refusal, which the write returns as a [RowError] that matches
	// [ErrRejected] and the error itself; nothing has changed then.
	//
	// They can look up other rows in txn, with what it has written so far. Of tables
	// that the transaction has locked this is firm. Others are read as they
	// were when it began: a row found there may be gone by the time it commits, so
	// such a check is advisory.
	Defaulters []func(txn ReadTxn, obj Obj) (Obj, error)
	Validators []func(txn ReadTxn, p Proposal[Obj]) error
	// Amend separates status from spec. Without it, all of a row is spec.
	Amend Amend[Obj]
	// WritableByName lets people write the table through [AnyTable]: declare it for
	// a table whose rows nothing else owns. Rows must be a type that encoding/json
	// can decode.
	WritableByName bool
	// Columns are the cells of a row for people to read, in order. When empty
	// there is one for each exported field.
	Columns []Column[Obj]
}

// Amend says which part of a row is not spec but status: written by
// [RWTable.Amend] alone and carried along by ordinary writes. The functions
// return changed copies with the same keys; they are called under the table's
// lock and must not use the database.
type Amend[Obj any] struct {
	// Carry returns to with the status of from.
	Carry func(from, to Obj) Obj
	// Reset returns obj with no status, as a new or changed row has it.
	Reset func(obj Obj) Obj
}

func (a Amend[Obj]) enabled() bool { return a.Carry != nil && a.Reset != nil }

var tableName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

func (s *Schema[Obj]) check() error {
	if !tableName.MatchString(s.Name) {
		return fmt.Errorf("name %q is not made of lower-case letters, digits and dashes, beginning with a letter", s.Name)
	}
	if s.Primary == nil {
		return errors.New("Primary is not set")
	}
	if tooLarge[Obj]() {
		return errors.New("rows of two megabytes cannot be kept by value: use pointers to them")
	}
	if s.Primary.isMulti() {
		return fmt.Errorf("primary index %q may yield more than one key, or none: declare it with NewIndex", s.Primary.Name())
	}
	for i, fill := range s.Defaulters {
		if fill == nil {
			return fmt.Errorf("Defaulters[%d] is nil", i)
		}
	}
	for i, validate := range s.Validators {
		if validate == nil {
			return fmt.Errorf("Validators[%d] is nil", i)
		}
	}
	if (s.Amend.Carry == nil) != (s.Amend.Reset == nil) {
		return errors.New("Amend needs both Carry and Reset")
	}
	if t := reflect.TypeFor[Obj](); s.WritableByName && t.Kind() == reflect.Interface {
		return fmt.Errorf("WritableByName needs rows that JSON can be decoded into, and %s is an interface", t)
	}
	if err := s.checkColumns(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, ix := range append([]Indexer[Obj]{s.Primary}, s.Secondary...) {
		if ix == nil {
			return errors.New("Secondary holds a nil index")
		}
		if err := ix.check(); err != nil {
			return err
		}
		if seen[ix.Name()] {
			return fmt.Errorf("two indexes are named %q", ix.Name())
		}
		seen[ix.Name()] = true
	}
	return nil
}

// equality returns what decides whether a write changes anything, or nil.
func (s *Schema[Obj]) equality() func(a, b Obj) bool {
	if s.Equal != nil {
		return s.Equal
	}
	if same := identity[Obj](); same != nil {
		return same
	}
	if _, ok := any(*new(Obj)).(interface{ Equal(Obj) bool }); ok {
		return func(a, b Obj) bool { return any(a).(interface{ Equal(Obj) bool }).Equal(b) }
	}
	return nil
}

// identity returns == where it is defined for all rows and means that nothing
// differs, else nil.
func identity[Obj any]() func(a, b Obj) bool {
	t := reflect.TypeFor[Obj]()
	if t.Kind() == reflect.Pointer || !plainlyComparable(t) {
		return nil
	}
	return func(a, b Obj) bool { return any(a) == any(b) }
}

// plainlyComparable says whether == is defined for all values of t, never
// panics, and holds between a value and its copy.
func plainlyComparable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return false
	case reflect.Array:
		return plainlyComparable(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !plainlyComparable(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return t.Comparable()
	}
}
