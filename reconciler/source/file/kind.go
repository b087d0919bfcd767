package file

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"

	"go.yaml.in/yaml/v4"

	"github.com/statehive/statehive/statedb"
)

// KindConfig declares a kind of document. Name and Table are required.
type KindConfig[Obj any] struct {
	// Name is the name of the kind in documents: lower-case letters, digits and dashes.
	Name string
	// Title describes the rows in a few words, for [Schema]. It is optional.
	Title string
	// Table is the table for the rows. Its row type is a struct, or a pointer to one,
	// whose exported fields are the fields of a document, named by their yaml tags.
	Table *statedb.RWTable[Obj]
	// Default returns a new row with the default values of fields. Nil: the zero value.
	Default func() Obj
	// Normalized checks a row and completes it. Its errors may be joined; errors of type
	// *reconciler.FieldError are reported at the line of their field. Nil: every row is
	// valid as it is.
	Normalized func(Obj) (Obj, error)
	// Filter reports whether to store a row that Normalized has accepted. Nothing is kept of
	// the documents that it drops, and their keys are free for other documents. It must not
	// modify the row. [SetFilter] replaces it at run time. Nil: all rows are stored.
	Filter func(Obj) bool
	// Transform returns the row to store for a row that Filter keeps, such as a copy without
	// fields that are not needed. Its errors are reported like those of Normalized, which
	// must accept the result. It must return equal rows for equal ones. Nil: rows are stored
	// as they are.
	Transform func(Obj) (Obj, error)
	// KeyField is the field to point at when two documents have the same key.
	// Empty: the document as a whole.
	KeyField string
}

// Kind is a kind of document. Only [NewKind] makes kinds.
type Kind interface {
	// Name returns the name of the kind in documents.
	Name() string

	table() statedb.TableMeta
	keyField() string
	catalog() catalog
	schema() node
	// filter returns the configured filter: a func(Obj) bool, which may be nil.
	filter() any
	// decode returns the row to store for a document, and its key. The row is nil if the
	// document is refused, which the decoder then reports, or dropped by the filter.
	decode(d *decoder, document *yaml.Node, filter any) (row any, key string)
	// claim returns the covers function of a claim: see there.
	claim(d *decoder, document *yaml.Node) (covers func(row any) bool)
	register(txn *statedb.WriteTxn, source string) (feed, error)
	insert(txn *statedb.WriteTxn, row any) error
	remove(txn *statedb.WriteTxn, row any) error
}

// feed is a source's handle on one table: a *statedb.Source of any row type.
type feed interface {
	Initialized(txn *statedb.WriteTxn) error
	Incomplete(txn *statedb.WriteTxn, reason string) error
}

type kind[Obj any] struct {
	config KindConfig[Obj]
	fields catalog
}

// NewKind declares a kind. It returns an error if a field of c is missing or invalid,
// or if the row type has a field that documents cannot express.
func NewKind[Obj any](c KindConfig[Obj]) (Kind, error) {
	if !kindName.MatchString(c.Name) {
		return nil, fmt.Errorf("kind %q: the name must consist of lower-case letters, digits and dashes, and begin with a letter", c.Name)
	}
	fields, err := catalogOf(reflect.TypeFor[Obj]())
	if err == nil && c.Table == nil {
		err = errors.New("Table is not set")
	}
	if err != nil {
		return nil, fmt.Errorf("kind %q: %w", c.Name, err)
	}
	return &kind[Obj]{config: c, fields: fields}, nil
}

var kindName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

func (k *kind[Obj]) Name() string             { return k.config.Name }
func (k *kind[Obj]) table() statedb.TableMeta { return k.config.Table.Untyped() }
func (k *kind[Obj]) keyField() string         { return k.config.KeyField }
func (k *kind[Obj]) catalog() catalog         { return k.fields }
func (k *kind[Obj]) filter() any              { return k.config.Filter }

func (k *kind[Obj]) decode(d *decoder, document *yaml.Node, filter any) (any, string) {
	row := k.initial()
	d.structure(document, structOf(&row), "")
	if d.failed() {
		return nil, ""
	}
	row, kept, err := k.stored(row, filter)
	if err != nil {
		d.refused(document, err)
	}
	if !kept {
		return nil, ""
	}
	return row, k.config.Table.Key(row)
}

// initial returns a row to decode over, never a nil pointer.
func (k *kind[Obj]) initial() (row Obj) {
	if k.config.Default != nil {
		row = k.config.Default()
	}
	if v := reflect.ValueOf(&row).Elem(); v.Kind() == reflect.Pointer && v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
	}
	return row
}

func (k *kind[Obj]) register(txn *statedb.WriteTxn, source string) (feed, error) {
	return k.config.Table.RegisterSource(txn, source)
}

func (k *kind[Obj]) insert(txn *statedb.WriteTxn, row any) error {
	obj, err := k.typed(row)
	if err == nil {
		_, _, err = k.config.Table.Insert(txn, obj)
	}
	return err
}

func (k *kind[Obj]) remove(txn *statedb.WriteTxn, row any) error {
	obj, err := k.typed(row)
	if err == nil {
		_, _, err = k.config.Table.Delete(txn, obj)
	}
	return err
}

var errForeignRow = errors.New("row of another kind")

func (k *kind[Obj]) typed(row any) (Obj, error) {
	obj, ok := row.(Obj)
	if !ok {
		return obj, fmt.Errorf("kind %q: %w: %T", k.config.Name, errForeignRow, row)
	}
	return obj, nil
}
