package statedb_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
)

func TestWrongSchemasAreRefusedWithTheReason(t *testing.T) {
	valid := func(change func(*statedb.Schema[item])) statedb.Schema[item] {
		schema := itemSchema("items")
		change(&schema)
		return schema
	}
	secondary := func(ix statedb.Indexer[item]) func(*statedb.Schema[item]) {
		return func(s *statedb.Schema[item]) { s.Secondary = []statedb.Indexer[item]{ix} }
	}
	for reason, schema := range map[string]statedb.Schema[item]{
		`name "" must consist of`:                         {Primary: byID},
		`name "Items" must consist of`:                    valid(func(s *statedb.Schema[item]) { s.Name = "Items" }),
		`name "9items" must consist of`:                   valid(func(s *statedb.Schema[item]) { s.Name = "9items" }),
		"Primary is not set":                              valid(func(s *statedb.Schema[item]) { s.Primary = nil }),
		`primary index "tag" may yield more than one key`: valid(func(s *statedb.Schema[item]) { s.Primary = byTag }),
		"Secondary holds a nil index":                     valid(secondary(nil)),
		`two indexes are named "id"`:                      valid(secondary(byID)),
		"Defaulters[0] is nil": valid(func(s *statedb.Schema[item]) {
			s.Defaulters = []func(statedb.ReadTxn, item) (item, error){nil}
		}),
		"Validators[0] is nil": valid(func(s *statedb.Schema[item]) {
			s.Validators = []func(statedb.ReadTxn, statedb.Proposal[item]) error{nil}
		}),
		"Amend needs both Carry and Reset": valid(func(s *statedb.Schema[item]) { s.Amend.Reset = nil }),
		"Columns[1] has no name": valid(func(s *statedb.Schema[item]) {
			s.Columns = []statedb.Column[item]{{"ID", idCell}, {"", idCell}}
		}),
		`column "ID" has no function Cell`: valid(func(s *statedb.Schema[item]) { s.Columns = []statedb.Column[item]{{Name: "ID"}} }),
		`two columns are named "ID"`: valid(func(s *statedb.Schema[item]) {
			s.Columns = []statedb.Column[item]{{"ID", idCell}, {"ID", idCell}}
		}),
		"an index has no name":                                valid(secondary(statedb.Index[item, string]{})),
		`index "float": float64 cannot be a key`:              valid(secondary(statedb.NewIndex("float", func(item) float64 { return 0 }))),
		`index "none" has no key function`:                    valid(secondary(statedb.NewIndex[item, string]("none", nil))),
		`index "multi" has no key function`:                   valid(secondary(statedb.NewMultiIndex[item, string]("multi", nil))),
		`bad schema: a table named "taken" exists already`:    valid(func(s *statedb.Schema[item]) { s.Name = "taken" }),
		`bad schema of table "x y"`:                           valid(func(s *statedb.Schema[item]) { s.Name = "x y" }),
		`cannot be a key: *int is none of bool`:               valid(secondary(statedb.NewIndex("pointer", func(item) *int { return nil }))),
		`index "struct": struct { A float32 } (field A) cann`: valid(secondary(statedb.NewIndex("struct", func(item) struct{ A float32 } { return struct{ A float32 }{} }))),
	} {
		t.Run(reason, func(t *testing.T) {
			db := newDB()
			newTable(t, db, itemSchema("taken"))
			table, err := statedb.NewTable(db, schema)
			wantError(t, err, statedb.ErrSchema)
			if table != nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("error %q does not say %q", err, reason)
			}
			if n := len(db.Tables(db.ReadTxn())); n != 1 {
				t.Errorf("%d tables, expected 1", n)
			}
		})
	}
}

func idCell(i item) string { return i.ID }

func TestInterfacesCannotBeWrittenByName(t *testing.T) {
	byText := statedb.NewIndex("text", func(s fmt.Stringer) string { return s.String() })
	_, err := statedb.NewTable(newDB(), statedb.Schema[fmt.Stringer]{Name: "texts", Primary: byText, WritableByName: true})
	wantError(t, err, statedb.ErrSchema)
	if !strings.Contains(err.Error(), "fmt.Stringer is an interface") {
		t.Errorf("error %q", err)
	}
}

func TestAQueryOfAnIndexThatNoTableCanHavePanics(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	float := statedb.NewIndex("float", func(item) float64 { return 0 })
	mustPanic(t, "Get", func() { f.items.Get(f.db.ReadTxn(), float.Query(1)) }, `"float"`, `"items"`)
}

func TestAMultiIndexMayReturnNoSequence(t *testing.T) {
	db := newDB()
	none := statedb.NewMultiIndex("none", func(item) iter.Seq[string] { return nil })
	table := newTable(t, db, statedb.Schema[item]{Name: "items", Primary: byID, Secondary: []statedb.Indexer[item]{none}})
	check(t, "insert", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := table.Insert(txn, item{ID: "a"})
		return err
	}, table))
}

// An equality is found where Go has one; its absence means that each write counts.
func TestEqualityIsFound(t *testing.T) {
	type plain struct{ ID, Text string }
	type withPointer struct {
		ID   string
		Text *string
	}
	type withFloat struct {
		ID    string
		Float float64
	}
	type withInterface struct {
		ID  string
		Any any
	}
	text := "text"
	wantWrites(t, plain{"a", "b"}, func(p plain) string { return p.ID }, 1)
	wantWrites(t, withPointer{"a", &text}, func(p withPointer) string { return p.ID }, 1)
	wantWrites(t, withFloat{"a", 1}, func(p withFloat) string { return p.ID }, 2)
	wantWrites(t, withInterface{"a", []int{1}}, func(p withInterface) string { return p.ID }, 2)
	wantWrites(t, withMethod{"a", []string{"x"}}, func(p withMethod) string { return p.ID }, 1)
	wantWrites(t, equalRows(listed{"x"}), func(equalRows) string { return "a" }, 1)
	wantWrites(t, [2]string{"a", "b"}, func(p [2]string) string { return p[0] }, 1)
	wantWrites(t, "row", func(s string) string { return s }, 1)
}

type withMethod struct {
	ID   string
	List []string
}

func (w withMethod) Equal(other withMethod) bool { return gocmp.Equal(w.List, other.List) }

// equalRows is a row type that is an interface with an equality.
type equalRows interface{ Equal(other equalRows) bool }

type listed []string

func (l listed) Equal(other equalRows) bool {
	o, ok := other.(listed)
	return ok && slices.Equal(l, o)
}

// wantWrites inserts a row twice and counts the revisions.
func wantWrites[Obj any](t *testing.T, row Obj, id func(Obj) string, want statedb.Revision) {
	t.Helper()
	db := newDB()
	table := newTable(t, db, statedb.Schema[Obj]{Name: "rows", Primary: statedb.NewIndex("id", id)})
	for range 2 {
		check(t, "insert", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, row)
			return err
		}, table))
	}
	if got := table.Revision(db.ReadTxn()); got != want {
		t.Errorf("%T: two identical writes made %d revisions, expected %d", row, got, want)
	}
}

func TestInterfaceRows(t *testing.T) {
	type row interface{ Name() string }
	db := newDB()
	byName := statedb.NewIndex("name", func(r row) string { return r.Name() })
	table := newTable(t, db, statedb.Schema[row]{Name: "rows", Primary: byName})
	one := &named{"a"}
	insert := func(r row) error {
		return db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, r)
			return err
		}, table)
	}
	check(t, "a pointer", insert(one))
	wantError(t, insert(one), statedb.ErrSameObject)
	check(t, "a value in its place", insert(namedValue("a")))
	check(t, "a pointer in its place", insert(one))
	wantError(t, insert(nil), statedb.ErrNilRow)
	wantError(t, insert((*named)(nil)), statedb.ErrNilRow)
}

type named struct{ name string }

func (n *named) Name() string { return n.name }

type namedValue string

func (n namedValue) Name() string { return string(n) }
