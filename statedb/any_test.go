package statedb_test

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
)

func TestTablesAreFoundByName(t *testing.T) {
	db := newDB()
	_, err := db.Table(db.ReadTxn(), "items")
	wantError(t, err, statedb.ErrUnknownTable)
	if got := err.Error(); got != `no such table "items"; there are none` {
		t.Errorf("error %q", got)
	}
	newTable(t, db, itemSchema("routes"))
	newTable(t, db, itemSchema("links"))
	_, err = db.Table(db.ReadTxn(), "items")
	var unknown *statedb.UnknownNameError
	if !errors.As(err, &unknown) || unknown.Name != "items" {
		t.Fatalf("error %v does not carry the name", err)
	}
	if got := err.Error(); got != `no such table "items"; there are: links, routes` {
		t.Errorf("error %q", got)
	}
	if table, err := db.Table(db.ReadTxn(), "links"); err != nil || table.Name() != "links" {
		t.Errorf("found %v, %v", table, err)
	}
}

func TestAnyTableReadsByText(t *testing.T) {
	f := newFixture(t, item{ID: "a", Group: "g,h", Number: -3, Tags: "x y"}, item{ID: "b", Group: "g", Tags: "x"})
	f.register("source")
	txn := f.db.ReadTxn()
	table, err := f.db.Table(txn, "items")
	check(t, "table", err)

	if diff := gocmp.Diff([]string{"id", "group", "number", "place", "tag"}, table.Indexes()); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]string{"ID", "Group", "Number", "Tags", "Status"}, table.Columns()); diff != "" {
		t.Error(diff)
	}
	if table.Len(txn) != 2 || table.Revision(txn) != 2 || len(table.Sources(txn)) != 1 {
		t.Errorf("%d rows, revision %d, sources %v", table.Len(txn), table.Revision(txn), table.Sources(txn))
	}
	want := statedb.AnyRow{
		Key: "a", Revision: 1, Object: item{ID: "a", Group: "g,h", Number: -3, Tags: "x y"},
		Cells: []string{"a", "g,h", "-3", "x y", "0"},
	}
	got, ok, err := table.Get(txn, "a")
	if diff := gocmp.Diff(want, got); diff != "" || !ok || err != nil {
		t.Errorf("Get: %t, %v, %s", ok, err, diff)
	}
	if _, ok, err := table.Get(txn, "absent"); ok || err != nil {
		t.Errorf("an absent row: %t, %v", ok, err)
	}
	wantIDs(t, "all", keys(table.All(txn)), "a", "b")
	for query, want := range map[[2]string][]string{
		{"id", "b"}:          {"b"},
		{"group", "g"}:       {"b"},
		{"number", "-3"}:     {"a"},
		{"place", `g\,h,-3`}: {"a"},
		{"tag", "x"}:         {"a", "b"},
		{"tag", "none"}:      nil,
	} {
		rows, err := table.List(txn, query[0], query[1])
		check(t, fmt.Sprint(query), err)
		wantIDs(t, fmt.Sprint(query), keys(rows), want...)
	}
	for range table.All(txn) {
		break
	}
}

func keys(rows iter.Seq[statedb.AnyRow]) []string {
	var all []string
	for row := range rows {
		all = append(all, row.Key)
	}
	return all
}

func TestWrongNamesAndKeysSayWhatIsExpected(t *testing.T) {
	db := newDB()
	byAddr := statedb.NewIndex("address", func(h host) netip.Addr { return h.Addr })
	byPort := statedb.NewIndex("port", func(h host) uint16 { return h.Port })
	newTable(t, db, statedb.Schema[host]{Name: "hosts", Primary: byAddr, Secondary: []statedb.Indexer[host]{byPort}})
	table, err := db.Table(db.ReadTxn(), "hosts")
	check(t, "table", err)

	_, _, err = table.Get(db.ReadTxn(), "10.0.0.300")
	wantError(t, err, statedb.ErrBadKey)
	if got := err.Error(); got != `table hosts: bad key for index "address": ParseAddr("10.0.0.300"): IPv4 field has value >255` {
		t.Errorf("error %q", got)
	}
	_, err = table.List(db.ReadTxn(), "port", "http")
	wantError(t, err, statedb.ErrBadKey)
	if got := err.Error(); got != `table hosts: bad key for index "port": "http" is not a whole number that fits uint16` {
		t.Errorf("error %q", got)
	}
	_, err = table.List(db.ReadTxn(), "name", "x")
	wantError(t, err, statedb.ErrUnknownIndex)
	if got := err.Error(); got != `table hosts: no such index "name"; there are: address, port` {
		t.Errorf("error %q", got)
	}
}

type host struct {
	Addr netip.Addr
	Port uint16
}

type base struct{ Owner string }

type label string

func (l label) String() string { return "label " + string(l) }

type row struct {
	base
	*item
	ID      int
	Prefix  netip.Prefix
	Nothing *time.Time
	Since   *time.Time
	Labels  []label
	Raw     []byte
	Every   time.Duration
	Any     any
	Err     error
	private int
}

func TestCellsShowFieldsAsText(t *testing.T) {
	db := newDB()
	table := newTable(t, db, statedb.Schema[row]{Name: "rows", Primary: statedb.NewIndex("id", func(r row) int { return r.ID })})
	since := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	check(t, "insert", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := table.Insert(txn, row{
			base: base{"me"}, ID: 7, Prefix: netip.MustParsePrefix("10.0.0.0/8"), Since: &since, Labels: []label{"a", "b"},
			Raw: []byte("raw"), Every: time.Minute, Any: 5, Err: errors.New("broken"), private: 1,
		})
		return err
	}, table))
	rows, err := db.Table(db.ReadTxn(), "rows")
	check(t, "table", err)
	got, ok, err := rows.Get(db.ReadTxn(), "7")
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	cells := map[string]string{}
	for i, name := range rows.Columns() {
		cells[name] = got.Cells[i]
	}
	want := map[string]string{
		"Owner": "me", "ID": "7", "Prefix": "10.0.0.0/8", "Nothing": "", "Since": "2020-01-02T03:04:05Z",
		"Labels": "label a,label b", "Raw": "raw", "Every": "1m0s", "Any": "5", "Err": "broken",
		"Group": "", "Number": "", "Tags": "", "Status": "", // of the embedded pointer, which is nil
	}
	if diff := gocmp.Diff(want, cells); diff != "" {
		t.Error(diff)
	}
}

func TestDeclaredColumnsReplaceTheFields(t *testing.T) {
	schema := itemSchema("items")
	schema.Columns = []statedb.Column[item]{
		{Name: "Where", Cell: func(i item) string { return fmt.Sprintf("%s/%d", i.Group, i.Number) }},
		{Name: "ID", Cell: func(i item) string { return i.ID }},
	}
	f := fixtureOf(t, schema, []item{{ID: "a", Group: "g", Number: 7}})
	schema.Columns[0].Name = "changed later"
	table, err := f.db.Table(f.db.ReadTxn(), "items")
	check(t, "table", err)
	table.Columns()[1] = "changed by a caller"
	if diff := gocmp.Diff([]string{"Where", "ID"}, table.Columns()); diff != "" {
		t.Error(diff)
	}
	row, _, err := table.Get(f.db.ReadTxn(), "a")
	check(t, "get", err)
	if diff := gocmp.Diff([]string{"g/7", "a"}, row.Cells); diff != "" {
		t.Error(diff)
	}
}

func TestRowsThatAreNoStructsHaveOneColumn(t *testing.T) {
	db := newDB()
	table := newTable(t, db, statedb.Schema[string]{Name: "names", Primary: statedb.NewIndex("name", func(s string) string { return s })})
	check(t, "insert", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := table.Insert(txn, "eth0")
		return err
	}, table))
	names, err := db.Table(db.ReadTxn(), "names")
	check(t, "table", err)
	for row := range names.All(db.ReadTxn()) {
		if diff := gocmp.Diff(statedb.AnyRow{Key: "eth0", Revision: 1, Object: "eth0", Cells: []string{"eth0"}}, row); diff != "" {
			t.Error(diff)
		}
	}
	if columns := names.Columns(); len(columns) != 1 || columns[0] != "Value" {
		t.Errorf("columns are %v", columns)
	}
}

// Each query by name gives what the typed one gives, with all options.
func TestAnyTableHasTheQueriesOfTheTable(t *testing.T) {
	var rows []item
	for n := range 20 {
		rows = append(rows, item{ID: fmt.Sprintf("%c%d", 'a'+n%3, n), Group: fmt.Sprint("g", n%4), Number: n - 10, Tags: "x y"})
	}
	f := newFixture(t, rows...)
	txn := f.db.ReadTxn()
	table, err := f.db.Table(txn, "items")
	check(t, "table", err)
	for _, opts := range [][]statedb.ReadOption{
		nil,
		{statedb.WithReverse()},
		{statedb.WithLimit(3)},
		{statedb.WithReverse(), statedb.WithLimit(2)},
		{statedb.WithLimit(0)},
	} {
		same := func(what string, typed iter.Seq2[item, statedb.Revision], byName iter.Seq[statedb.AnyRow], err error) {
			t.Helper()
			check(t, what, err)
			wantIDs(t, what, keys(byName), ids(typed)...)
		}
		same("all", f.items.All(txn, opts...), table.All(txn, opts...), nil)
		for _, key := range []string{"a", "b1", "c", ""} {
			byName, err := table.Prefix(txn, "id", key, opts...)
			same("prefix "+key, f.items.Prefix(txn, byID.Query(key), opts...), byName, err)
			byName, err = table.LowerBound(txn, "id", key, opts...)
			same("lower bound "+key, f.items.LowerBound(txn, byID.Query(key), opts...), byName, err)
		}
		for _, number := range []int{-11, -3, 0, 9, 10} {
			text := fmt.Sprint(number)
			byName, err := table.List(txn, "number", text, opts...)
			same("list "+text, f.items.List(txn, byNumber.Query(number), opts...), byName, err)
			byName, err = table.LowerBound(txn, "number", text, opts...)
			same("lower bound "+text, f.items.LowerBound(txn, byNumber.Query(number), opts...), byName, err)
			byName, err = table.Range(txn, "number", text, "5", opts...)
			same("range "+text, f.items.Range(txn, byNumber.Query(number), byNumber.Query(5), opts...), byName, err)
		}
		byName, err := table.Prefix(txn, "group", "g", opts...)
		same("groups", f.items.Prefix(txn, byGroup.Query("g"), opts...), byName, err)
		byName, err = table.Range(txn, "place", "g1,0", "g2,3", opts...)
		same("places", f.items.Range(txn, byPlace.Query(place{"g1", 0}), byPlace.Query(place{"g2", 3}), opts...), byName, err)
	}
}

// watchesOf takes a watch with every query of a table of items.
func watchesOf(t *testing.T, table statedb.AnyTable, txn statedb.ReadTxn) map[string]<-chan struct{} {
	t.Helper()
	watches := map[string]<-chan struct{}{}
	var err error
	add := func(what string, rows iter.Seq[statedb.AnyRow], watch <-chan struct{}, err error) {
		check(t, what, err)
		wantIDs(t, what, keys(rows), "b")
		watches[what] = watch
	}
	_, watches["get"], _, err = table.GetWatch(txn, "b")
	check(t, "get", err)
	_, watches["get of nothing"], _, err = table.GetWatch(txn, "c")
	check(t, "get of nothing", err)
	rows, watch := table.AllWatch(txn)
	add("all", rows, watch, nil)
	rows, watch, err = table.ListWatch(txn, "group", "g")
	add("list", rows, watch, err)
	rows, watch, err = table.PrefixWatch(txn, "group", "g")
	add("prefix", rows, watch, err)
	rows, watch, err = table.LowerBoundWatch(txn, "number", "1")
	add("lower bound", rows, watch, err)
	rows, watch, err = table.RangeWatch(txn, "number", "1", "9")
	add("range", rows, watch, err)
	return watches
}

func TestEveryQueryByNameCanBeWatched(t *testing.T) {
	f := newFixture(t, item{ID: "b", Group: "g", Number: 5})
	table, err := f.db.Table(f.db.ReadTxn(), "items")
	check(t, "table", err)
	watches := watchesOf(t, table, f.db.ReadTxn())
	for what, watch := range watches {
		if watch == nil || closed(watch) {
			t.Errorf("%s: is not open before anything has changed", what)
		}
	}
	f.insert(item{ID: "b", Group: "g", Number: 6}, item{ID: "c", Group: "g", Number: 7})
	for what, watch := range watches {
		if !closed(watch) {
			t.Errorf("%s: not woken", what)
		}
	}
}

func TestWatchingAWrongNameOrKeyIsAnError(t *testing.T) {
	f := newFixture(t)
	txn := f.db.ReadTxn()
	table, err := f.db.Table(txn, "items")
	check(t, "table", err)
	for index, want := range map[string]error{"number": statedb.ErrBadKey, "nothing": statedb.ErrUnknownIndex} {
		_, _, list := table.ListWatch(txn, index, "x")
		_, _, prefix := table.PrefixWatch(txn, index, "x")
		_, _, bound := table.LowerBoundWatch(txn, index, "x")
		_, _, from := table.RangeWatch(txn, index, "x", "1")
		_, to := table.Range(txn, index, "1", "x")
		for _, err := range []error{list, prefix, bound, from, to} {
			wantError(t, err, want)
		}
	}
}

func TestAnyTableWatchesRows(t *testing.T) {
	f := newFixture(t)
	table, err := f.db.Table(f.db.ReadTxn(), "items")
	check(t, "table", err)
	other := newTable(t, f.db, itemSchema("others"))
	watch := table.Watch(f.db.ReadTxn())
	check(t, "update", f.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := other.Insert(txn, item{ID: "a"})
		return err
	}, f.items, other))
	if closed(watch) {
		t.Error("woken by another table")
	}
	f.insert(item{ID: "a"})
	if !closed(watch) {
		t.Error("not woken by an insert")
	}
}

func TestAMomentThatNeverWasIsAnEmptyCell(t *testing.T) {
	type moment struct {
		ID int
		At time.Time
	}
	db := newDB()
	table := newTable(t, db, statedb.Schema[moment]{Name: "moments", Primary: statedb.NewIndex("id", func(m moment) int { return m.ID })})
	check(t, "insert", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := table.Insert(txn, moment{ID: 1})
		return err
	}, table))
	moments, err := db.Table(db.ReadTxn(), "moments")
	check(t, "table", err)
	row, _, err := moments.Get(db.ReadTxn(), "1")
	check(t, "get", err)
	if row.Cells[1] != "" {
		t.Errorf("got %q", row.Cells[1])
	}
}
