package statedb

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"unsafe"

	"github.com/statehive/statehive/internal/store"
)

// Schema declares a table. Name and Primary are required; all other fields are optional.
type Schema[Obj any] struct {
	// Name of the table: lower-case letters, digits and dashes. It is unique in
	// its database.
	Name string
	// Primary is the unique index that identifies a row. It has one key per row.
	Primary Indexer[Obj]
	// Secondary lists more indexes. Several rows may share a key, unless the index was made
	// by [Index.Unique].
	Secondary []Indexer[Obj]
	// Equal reports whether two rows with the same primary key are equal, so that writing
	// the second over the first is a no-op. If nil it is == for comparable types that are
	// not pointers (and have neither interfaces nor floats), else the method Equal(Obj)
	// bool of the row type; without either, every write is a change.
	Equal func(a, b Obj) bool
	// Defaulters complete a row before it is written. Each gets what the one before
	// returned, and returns a changed copy if obj is a pointer. They may set the primary
	// key, except in Modify. Validators then decide whether the row is accepted; they do
	// not run when nothing would change. Both run inside the write, in order, and only for
	// writes of spec: not for Amend or deletes. If one returns an error, nothing changes
	// and the write returns a [RowError] that matches [ErrRejected] and the error itself.
	//
	// They can look up other rows in txn, including what it has written so far. For tables
	// that the transaction has locked this is reliable. Others are read as they were when
	// it began: a row found there may be gone by the time it commits, so such a check is
	// advisory.
	Defaulters []func(txn ReadTxn, obj Obj) (Obj, error)
	Validators []func(txn ReadTxn, p Proposal[Obj]) error
	// Amend separates status from spec. Without it, the whole row is spec.
	Amend Amend[Obj]
	// WritableByName allows the table to be written through [AnyTable]: set it for a table
	// whose rows have no other owner. The row type must be one that encoding/json can
	// decode.
	WritableByName bool
	// Columns are the cells of a row for people to read, in order. If empty there is one
	// for each exported field.
	Columns []Column[Obj]
}

// Amend defines which part of a row is not spec but status: it is written only by
// [RWTable.Amend], and carried along by ordinary writes. The functions return changed
// copies with the same keys; they are called under the table's lock and must not use the
// database.
type Amend[Obj any] struct {
	// Carry returns to with the status of from.
	Carry func(from, to Obj) Obj
	// Reset returns obj without a status, as a new or changed row has it.
	Reset func(obj Obj) Obj
}

func (a Amend[Obj]) enabled() bool { return a.Carry != nil && a.Reset != nil }

var tableName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// facts is what is checked of a schema, without the type of its rows.
type facts struct {
	name                       string
	primary                    indexer
	secondary                  []indexer
	size                       uintptr
	nilDefaulter, nilValidator int // the first that is nil, or -1
	carry, reset               bool
	writable                   bool
	row                        reflect.Type
	columns                    []string
	nilCell                    int
}

// indexer is an [Indexer] of any row type.
type indexer interface{ untyped() (*store.Index, error) }

func (s *Schema[Obj]) facts() facts {
	f := facts{
		name: s.Name, primary: s.Primary, size: entrySize[Obj](), row: reflect.TypeFor[Obj](), writable: s.WritableByName,
		carry: s.Amend.Carry != nil, reset: s.Amend.Reset != nil, nilDefaulter: -1, nilValidator: -1, nilCell: -1,
	}
	for _, ix := range s.Secondary {
		f.secondary = append(f.secondary, ix)
	}
	for i := len(s.Defaulters) - 1; i >= 0; i-- {
		if s.Defaulters[i] == nil {
			f.nilDefaulter = i
		}
	}
	for i := len(s.Validators) - 1; i >= 0; i-- {
		if s.Validators[i] == nil {
			f.nilValidator = i
		}
	}
	for i, c := range s.Columns {
		if f.columns = append(f.columns, c.Name); c.Cell == nil && f.nilCell < 0 {
			f.nilCell = i
		}
	}
	return f
}

func (f *facts) check() error {
	switch {
	case !tableName.MatchString(f.name):
		return fmt.Errorf("name %q is not made of lower-case letters, digits and dashes, beginning with a letter", f.name)
	case f.primary == nil:
		return errors.New("Primary is not set")
	case f.size >= store.MaxRow:
		return errors.New("rows of two megabytes cannot be kept by value: use pointers to them")
	case f.nilDefaulter >= 0:
		return fmt.Errorf("Defaulters[%d] is nil", f.nilDefaulter)
	case f.nilValidator >= 0:
		return fmt.Errorf("Validators[%d] is nil", f.nilValidator)
	case f.carry != f.reset:
		return errors.New("Amend needs both Carry and Reset")
	case f.writable && f.row.Kind() == reflect.Interface:
		return fmt.Errorf("WritableByName needs rows that JSON can be decoded into, and %s is an interface", f.row)
	}
	if err := f.checkColumns(); err != nil {
		return err
	}
	return f.checkIndexes()
}

func (f *facts) checkColumns() error {
	seen := map[string]bool{}
	for i, name := range f.columns {
		switch {
		case name == "":
			return fmt.Errorf("Columns[%d] has no name", i)
		case i == f.nilCell:
			return fmt.Errorf("column %q has no function Cell", name)
		case seen[name]:
			return fmt.Errorf("two columns are named %q", name)
		}
		seen[name] = true
	}
	return nil
}

func (f *facts) checkIndexes() error {
	seen := map[string]bool{}
	for i, ix := range append([]indexer{f.primary}, f.secondary...) {
		if ix == nil {
			return errors.New("Secondary holds a nil index")
		}
		core, err := ix.untyped()
		switch {
		case err != nil:
			return err
		case core == nil:
			return problem("", nil, true)
		case i == 0 && core.Multi:
			return fmt.Errorf("primary index %q may yield more than one key, or none: declare it with NewIndex", core.Name)
		case seen[core.Name]:
			return fmt.Errorf("two indexes are named %q", core.Name)
		}
		seen[core.Name] = true
	}
	return nil
}

func (f *facts) indexes() []*store.Index {
	var indexes []*store.Index
	for _, ix := range append([]indexer{f.primary}, f.secondary...) {
		core, _ := ix.untyped()
		indexes = append(indexes, core)
	}
	return indexes
}

// rowType returns what the store has to know about the type of the rows. It captures as
// little as possible: each function here is compiled for each type of rows.
func (s *Schema[Obj]) rowType(f *facts) store.RowType {
	r := store.RowType{Type: f.row, Size: f.size, WritableByName: f.writable, Indexes: f.indexes(), Columns: f.columns}
	r.Apply = func(fn any, from, into unsafe.Pointer) { setObject(into, fn.(func(Obj) Obj)(object[Obj](from))) }
	if f.row.Kind() != reflect.Pointer {
		r.New = newEntry[Obj]
		if plainlyComparable(f.row) {
			r.Identical = func(a, b unsafe.Pointer) bool { return any(object[Obj](a)) == any(object[Obj](b)) }
		}
	}
	r.Equal = r.Identical
	if equal := s.Equal; equal != nil {
		r.Equal = func(a, b unsafe.Pointer) bool { return equal(object[Obj](a), object[Obj](b)) }
	} else if r.Equal == nil && f.row.Implements(reflect.TypeFor[equaler[Obj]]()) {
		r.Equal = func(a, b unsafe.Pointer) bool { return any(object[Obj](a)).(equaler[Obj]).Equal(object[Obj](b)) }
	}
	if a := s.Amend; a.enabled() {
		r.Carry = func(from, to, into unsafe.Pointer) { setObject(into, a.Carry(object[Obj](from), object[Obj](to))) }
		r.Reset = func(row unsafe.Pointer) { setObject(row, a.Reset(object[Obj](row))) }
	}
	if fill := s.Defaulters; len(fill) > 0 {
		r.Defaulters = len(fill)
		r.Default = func(txn ReadTxn, i int, row unsafe.Pointer) error {
			obj, err := fill[i](txn, object[Obj](row))
			if err == nil {
				setObject(row, obj)
			}
			return err
		}
	}
	if validators := s.Validators; len(validators) > 0 {
		r.Validate = func(txn ReadTxn, row, old unsafe.Pointer) error { return validate(validators, txn, row, old) }
	}
	if columns := s.Columns; len(columns) > 0 {
		r.Cells = func(row unsafe.Pointer) []string { return cells(columns, object[Obj](row)) }
	}
	return r
}

type equaler[Obj any] interface{ Equal(other Obj) bool }

func validate[Obj any](validators []func(ReadTxn, Proposal[Obj]) error, txn ReadTxn, row, old unsafe.Pointer) error {
	p := Proposal[Obj]{Object: object[Obj](row)}
	if old != nil {
		p.Old, p.Replaces = object[Obj](old), true
	}
	for _, accept := range validators {
		if err := accept(txn, p); err != nil {
			return err
		}
	}
	return nil
}

func cells[Obj any](columns []Column[Obj], obj Obj) []string {
	texts := make([]string, len(columns))
	for i, c := range columns {
		texts[i] = c.Cell(obj)
	}
	return texts
}

// Proposal is a write that validators accept or reject.
type Proposal[Obj any] struct {
	_ [0]func() // no equality is compiled for it
	// Object is the row as it would be written, completed by the defaulters and
	// with its status reset.
	Object Obj
	// Old is the row that it would replace, if Replaces is true.
	Old      Obj
	Replaces bool
}

// Column is a named cell of a row, as text.
type Column[Obj any] struct {
	Name string
	Cell func(Obj) string
}

// plainlyComparable reports whether == is defined for all values of t, never
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
