package statedb_test

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// item is the row of most tests: every kind of index can be made of it, and
// Status is its status.
type item struct {
	ID     string
	Group  string
	Number int
	Tags   string // separated by spaces; may repeat
	Status int
}

func (i item) tags() iter.Seq[string] {
	return slices.Values(strings.Fields(i.Tags))
}

type place struct {
	Group  string
	Number int
}

var (
	byID     = statedb.NewIndex("id", func(i item) string { return i.ID })
	byGroup  = statedb.NewIndex("group", func(i item) string { return i.Group })
	byNumber = statedb.NewIndex("number", func(i item) int { return i.Number })
	byPlace  = statedb.NewIndex("place", func(i item) place { return place{i.Group, i.Number} })
	byTag    = statedb.NewMultiIndex("tag", item.tags)
)

var itemStatus = statedb.Amend[item]{
	Carry: func(from, to item) item { to.Status = from.Status; return to },
	Reset: func(i item) item { i.Status = 0; return i },
}

func itemSchema(name string) statedb.Schema[item] {
	return statedb.Schema[item]{
		Name:      name,
		Primary:   byID,
		Secondary: []statedb.Indexer[item]{byGroup, byNumber, byPlace, byTag},
		Amend:     itemStatus,
	}
}

// newDB returns an empty database.
func newDB(options ...statedb.Option) *statedb.DB { return statedb.New(options...) }

// fatal is a test of any kind, rapid's included.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newTable[Obj any](t fatal, db *statedb.DB, schema statedb.Schema[Obj]) *statedb.RWTable[Obj] {
	t.Helper()
	table, err := statedb.NewTable(db, schema)
	if err != nil {
		t.Fatalf("table %s: %v", schema.Name, err)
	}
	return table
}

// fixture is a database with one table of items.
type fixture struct {
	t     *testing.T
	db    *statedb.DB
	items *statedb.RWTable[item]
}

func newFixture(t *testing.T, rows ...item) *fixture {
	t.Helper()
	return fixtureOf(t, itemSchema("items"), rows)
}

// newLeanFixture has the primary index only, for tests that write a lot.
func newLeanFixture(t *testing.T, rows ...item) *fixture {
	t.Helper()
	return fixtureOf(t, statedb.Schema[item]{Name: "items", Primary: byID, Amend: itemStatus}, rows)
}

func fixtureOf(t *testing.T, schema statedb.Schema[item], rows []item) *fixture {
	t.Helper()
	db := newDB()
	f := &fixture{t, db, newTable(t, db, schema)}
	if len(rows) > 0 {
		f.insert(rows...)
	}
	return f
}

func (f *fixture) write() *statedb.WriteTxn {
	f.t.Helper()
	txn, err := f.db.WriteTxn(f.t.Context(), f.items)
	if err != nil {
		f.t.Fatal(err)
	}
	return txn
}

// update commits what fn writes and fails the test if it returns an error.
func (f *fixture) update(fn func(txn *statedb.WriteTxn) error) {
	f.t.Helper()
	if err := f.try(fn); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) try(fn func(txn *statedb.WriteTxn) error) error {
	f.t.Helper()
	return f.db.Update(f.t.Context(), fn, f.items)
}

func (f *fixture) insert(rows ...item) {
	f.t.Helper()
	f.update(func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := f.items.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *fixture) remove(ids ...string) {
	f.t.Helper()
	f.update(func(txn *statedb.WriteTxn) error {
		for _, id := range ids {
			if _, _, err := f.items.Delete(txn, item{ID: id}); err != nil {
				return err
			}
		}
		return nil
	})
}

// amend writes a status and says whether it was accepted.
func (f *fixture) amend(id string, revision statedb.Revision, status int) (amended bool) {
	f.t.Helper()
	f.update(func(txn *statedb.WriteTxn) (err error) {
		amended, err = f.items.Amend(txn, item{ID: id}, revision, func(i item) item { i.Status = status; return i })
		return err
	})
	return amended
}

func (f *fixture) get(id string) (item, statedb.Revision) {
	f.t.Helper()
	row, revision, ok := f.items.Get(f.db.ReadTxn(), byID.Query(id))
	if !ok {
		f.t.Fatalf("row %q is not there", id)
	}
	return row, revision
}

// ids collects the ids of a sequence.
func ids(rows iter.Seq2[item, statedb.Revision]) []string {
	var found []string
	for row := range rows {
		found = append(found, row.ID)
	}
	return found
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func wantError(t fatal, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Fatalf("error %v, expected %v", err, target)
		}
	}
}

// errorIs is errors.Is in which only nil matches nil.
func errorIs(err, target error) bool {
	if target == nil {
		return err == nil
	}
	return errors.Is(err, target)
}
