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
	// not pointers (and have neither interfaces nor floats), or else the method Equal(Obj)
	// bool of the row type; without either, every write is a change.
	Equal func(a, b Obj) bool
	// Defaulters complete a row before it is written. Each gets the result of the previous
	// one, and returns a changed copy if obj is a pointer. They may set the primary
	// key, except in Modify. Validators then decide whether the row is accepted; they do
	// not run when nothing would change. Both run inside the write, in order, and only for
	// writes of spec: not for Amend or deletes. If one returns an error, nothing changes
	// and the write returns a [RowError] that matches [ErrRejected] and the error itself.
	//
	// They can look up other rows in txn, including its own writes so far. For tables that
	// the transaction has locked this is reliable. Other tables are read as they were when
	// the transaction began: a row found there may be gone by the time it commits, so such
	// a check is advisory.
	Defaulters []func(txn ReadTxn, obj Obj) (Obj, error)
	Validators []func(txn ReadTxn, p Proposal[Obj]) error
	// Amend separates status from spec. Without it, the whole row is spec.
	Amend Amend[Obj]
	// WritableByName allows the table to be written through [AnyTable]: set it for a table
	// whose rows have no other owner. The row type must be one that encoding/json can
	// decode.
	WritableByName bool
	// Columns are the cells of a row as people read it, in order. The default is one column
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
	// Reset returns obj with the status of a new or changed row.
	Reset func(obj Obj) Obj
}

// description is a schema without the type of the rows.
type description struct {
	schema, row, equaler any // pointers to the schema, a row, and an interface with Equal
	size                 uintptr
	primary              *store.Index
	secondary            []*store.Index
	rows                 store.RowType // may have functions that the schema does not need
	// The comparison of rows: by the schema's function, by their method, or by ==.
	byFunction, byMethod, byValue func(a, b unsafe.Pointer) bool
}

// describe describes a schema, which may be invalid. It and its function literals are compiled
// for each type of rows, so it leaves as much as possible to other functions.
func describe[Obj any](s *Schema[Obj]) *description {
	d := &description{
		schema: s, row: (*Obj)(nil), equaler: (*interface{ Equal(other Obj) bool })(nil),
		size: entrySize[Obj](), primary: coreOf(s.Primary),
		byFunction: func(a, b unsafe.Pointer) bool { return s.Equal(object[Obj](a), object[Obj](b)) },
		byMethod: func(a, b unsafe.Pointer) bool {
			return any(object[Obj](a)).(interface{ Equal(other Obj) bool }).Equal(object[Obj](b))
		},
		byValue: func(a, b unsafe.Pointer) bool { return any(object[Obj](a)) == any(object[Obj](b)) },
	}
	for _, ix := range s.Secondary {
		d.secondary = append(d.secondary, coreOf(ix))
	}
	d.rows = store.RowType{
		New:   newEntry[Obj],
		Apply: func(fn any, from, into unsafe.Pointer) { setObject(into, fn.(func(Obj) Obj)(object[Obj](from))) },
		Carry: func(from, to, into unsafe.Pointer) {
			setObject(into, s.Amend.Carry(object[Obj](from), object[Obj](to)))
		},
		Reset: func(row unsafe.Pointer) { setObject(row, s.Amend.Reset(object[Obj](row))) },
		Default: func(txn ReadTxn, i int, row unsafe.Pointer) error {
			obj, err := s.Defaulters[i](txn, object[Obj](row))
			if err == nil {
				setObject(row, obj)
			}
			return err
		},
		Validate: func(txn ReadTxn, i int, row, old unsafe.Pointer) error {
			p := Proposal[Obj]{Object: object[Obj](row)}
			if old != nil {
				p.Old, p.Replaces = object[Obj](old), true
			}
			return s.Validators[i](txn, p)
		},
		Cell: func(i int, row unsafe.Pointer) string { return s.Columns[i].Cell(object[Obj](row)) },
	}
	return d
}

// coreOf returns the index behind one that a schema lists, or nil.
func coreOf[Obj any](ix Indexer[Obj]) *store.Index {
	if ix == nil {
		return nil
	}
	return ix.of(nil)
}

var tableName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// create checks the schema and adds its table to a database.
func (d *description) create(db *DB) (*store.Table, error) {
	name := d.field("Name").String()
	d.complete()
	if err := d.check(name); err != nil {
		return nil, fmt.Errorf("%w of table %q: %w", ErrSchema, name, err)
	}
	return store.NewTable(db, name, d.rows)
}

// complete sets the fields that do not depend on the type of the rows, and removes the functions
// that the schema does not need.
func (d *description) complete() {
	r := &d.rows
	r.Type, r.Size = reflect.TypeOf(d.row).Elem(), d.size
	r.WritableByName = d.field("WritableByName").Bool()
	r.Indexes = append([]*store.Index{d.primary}, d.secondary...)
	r.Defaulters, r.Validators = d.field("Defaulters").Len(), d.field("Validators").Len()
	if !d.isSet("Amend", "Carry") {
		r.Carry, r.Reset = nil, nil
	}
	if r.Type.Kind() != reflect.Pointer && plainlyComparable(r.Type) {
		r.Identical = d.byValue
	}
	switch {
	case d.isSet("Equal"):
		r.Equal = d.byFunction
	case r.Identical != nil:
		r.Equal = r.Identical
	case r.Type.Implements(reflect.TypeOf(d.equaler).Elem()):
		r.Equal = d.byMethod
	}
}

// field returns a field of the schema, or a field of such a field.
func (d *description) field(path ...string) reflect.Value {
	v := reflect.ValueOf(d.schema).Elem()
	for _, name := range path {
		v = v.FieldByName(name)
	}
	return v
}

func (d *description) isSet(path ...string) bool { return !d.field(path...).IsNil() }

// firstNil returns the index of the first nil in a field that lists functions, or -1.
func (d *description) firstNil(field string) int {
	functions := d.field(field)
	for i := range functions.Len() {
		if functions.Index(i).IsNil() {
			return i
		}
	}
	return -1
}

func (d *description) check(name string) error {
	nilDefaulter, nilValidator := d.firstNil("Defaulters"), d.firstNil("Validators")
	switch {
	case !tableName.MatchString(name):
		return fmt.Errorf("name %q must consist of lower-case letters, digits and dashes, and begin with a letter", name)
	case !d.isSet("Primary"):
		return errors.New("Primary is not set")
	case d.rows.Size >= store.MaxRow:
		return errors.New("rows of two megabytes or more cannot be stored by value: use pointers to them")
	case nilDefaulter >= 0:
		return fmt.Errorf("Defaulters[%d] is nil", nilDefaulter)
	case nilValidator >= 0:
		return fmt.Errorf("Validators[%d] is nil", nilValidator)
	case d.isSet("Amend", "Carry") != d.isSet("Amend", "Reset"):
		return errors.New("Amend needs both Carry and Reset")
	case d.rows.WritableByName && d.rows.Type.Kind() == reflect.Interface:
		return fmt.Errorf("WritableByName needs rows that JSON can be decoded into, but %s is an interface", d.rows.Type)
	}
	if err := d.checkColumns(); err != nil {
		return err
	}
	return d.checkIndexes()
}

func (d *description) checkColumns() error {
	seen := map[string]bool{}
	columns := d.field("Columns")
	for i := range columns.Len() {
		name := columns.Index(i).FieldByName("Name").String()
		switch {
		case name == "":
			return fmt.Errorf("Columns[%d] has no name", i)
		case columns.Index(i).FieldByName("Cell").IsNil():
			return fmt.Errorf("column %q has no function Cell", name)
		case seen[name]:
			return fmt.Errorf("two columns are named %q", name)
		}
		seen[name] = true
		d.rows.Columns = append(d.rows.Columns, name)
	}
	return nil
}

func (d *description) checkIndexes() error {
	seen := map[string]bool{}
	secondary := d.field("Secondary")
	for i, ix := range d.rows.Indexes {
		switch {
		case i > 0 && secondary.Index(i-1).IsNil():
			return errors.New("Secondary holds a nil index")
		case ix == nil:
			return problem("", nil, true)
		case ix.Err != nil:
			return ix.Err
		case i == 0 && ix.Multi:
			return fmt.Errorf("primary index %q may yield more than one key, or none: declare it with NewIndex", ix.Name)
		case seen[ix.Name]:
			return fmt.Errorf("two indexes are named %q", ix.Name)
		}
		seen[ix.Name] = true
	}
	return nil
}

// Proposal is a write that validators accept or reject.
type Proposal[Obj any] struct {
	_ [0]func() // prevents ==, so that no equality is compiled
	// Object is the row as it would be written, completed by the defaulters and
	// with its status reset.
	Object Obj
	// Old is the row that the write would replace, if Replaces is true.
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
