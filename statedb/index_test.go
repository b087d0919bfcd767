package statedb_test

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/internal/store/invariant"
	"github.com/statehive/statehive/statedb"
)

// wantIDs compares the ids that a sequence yields.
func wantIDs(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s is %q, expected %q", what, got, want)
	}
}

func TestQueriesDoNotMatchIntoThePrimaryKey(t *testing.T) {
	f := newFixture(t, item{ID: "aa", Group: "a", Tags: "a"}, item{ID: "a", Group: "", Tags: "b"})
	txn := f.db.ReadTxn()
	wantIDs(t, "prefix aa of the group", ids(f.items.Prefix(txn, byGroup.Query("aa"))))
	wantIDs(t, "prefix aa of the tag", ids(f.items.Prefix(txn, byTag.Query("aa"))))
	wantIDs(t, "group a", ids(f.items.List(txn, byGroup.Query("a"))), "aa")
	wantIDs(t, "group aaa", ids(f.items.List(txn, byGroup.Query("aaa"))))
	wantIDs(t, "group \"\"", ids(f.items.List(txn, byGroup.Query(""))), "a")
	wantIDs(t, "all groups", ids(f.items.Prefix(txn, byGroup.Query(""))), "a", "aa")
}

func TestZeroBytesKeepTheOrder(t *testing.T) {
	groups := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00\x00", "a\x00b", "a\x01", "aa"}
	f := newFixture(t)
	var want []string
	for i, group := range groups {
		for _, suffix := range []string{"", "\x00", "\xff"} {
			id := fmt.Sprintf("%02d%s", len(groups)-i, suffix)
			f.insert(item{ID: id, Group: group})
			want = append(want, id)
		}
	}
	txn := f.db.ReadTxn()
	wantIDs(t, "the order by group", ids(f.items.Prefix(txn, byGroup.Query(""))), want...)
	for i, group := range groups {
		wantIDs(t, fmt.Sprintf("group %q", group), ids(f.items.List(txn, byGroup.Query(group))), want[3*i:3*i+3]...)
		wantIDs(t, fmt.Sprintf("from group %q", group), ids(f.items.LowerBound(txn, byGroup.Query(group))), want[3*i:]...)
	}
}

func TestKeysThatARowHasTwice(t *testing.T) {
	f := newFixture(t, item{ID: "a", Tags: "x y x x"}, item{ID: "b", Tags: "x"})
	wantTags := func(x, y, z []string, entries int) {
		t.Helper()
		txn := f.db.ReadTxn()
		wantIDs(t, "x", ids(f.items.List(txn, byTag.Query("x"))), x...)
		wantIDs(t, "y", ids(f.items.List(txn, byTag.Query("y"))), y...)
		wantIDs(t, "z", ids(f.items.List(txn, byTag.Query("z"))), z...)
		if n, _ := f.items.LenOf(txn, "tag"); n != entries {
			t.Errorf("%d entries, expected %d", n, entries)
		}
	}
	wantTags([]string{"a", "b"}, []string{"a"}, nil, 3)
	f.insert(item{ID: "a", Tags: "z x z"})
	wantTags([]string{"a", "b"}, nil, []string{"a"}, 3)
	f.insert(item{ID: "a", Tags: "y y"})
	wantTags([]string{"b"}, []string{"a"}, nil, 2)
	f.remove("a")
	wantTags([]string{"b"}, nil, nil, 1)
	f.remove("b")
	wantTags(nil, nil, nil, 0)
}

func TestARowWithoutKeysIsNotInTheIndex(t *testing.T) {
	f := newFixture(t, item{ID: "a"}, item{ID: "b", Tags: "x"})
	txn := f.db.ReadTxn()
	wantIDs(t, "the index", ids(f.items.LowerBound(txn, byTag.Query(""))), "b")
	f.insert(item{ID: "b"}, item{ID: "a", Tags: "x"})
	wantIDs(t, "the index", ids(f.items.LowerBound(f.db.ReadTxn(), byTag.Query(""))), "a")
}

func TestKeysThatArePrefixesOfEachOther(t *testing.T) {
	f := newFixture(t, item{ID: "foobar"}, item{ID: "foo"}, item{ID: ""}, item{ID: "foobarbaz"}, item{ID: "fo"})
	f.remove("foobar", "fo")
	txn := f.db.ReadTxn()
	wantIDs(t, "all", ids(f.items.All(txn)), "", "foo", "foobarbaz")
	wantIDs(t, "from foob", ids(f.items.LowerBound(txn, byID.Query("foob"))), "foobarbaz")
	wantIDs(t, "prefix foob", ids(f.items.Prefix(txn, byID.Query("foob"))), "foobarbaz")
}

func TestVeryLongKeysAreFound(t *testing.T) {
	long := strings.Repeat("k", 70_000)
	f := newFixture(t, item{ID: long, Group: long, Tags: long + " short"}, item{ID: long + "+", Group: long[1:]})
	txn := f.db.ReadTxn()
	wantIDs(t, "the row", ids(f.items.List(txn, byID.Query(long))), long)
	wantIDs(t, "by group", ids(f.items.List(txn, byGroup.Query(long))), long)
	wantIDs(t, "by tag", ids(f.items.List(txn, byTag.Query(long))), long)
	f.remove(long)
	wantIDs(t, "what is left", ids(f.items.Prefix(f.db.ReadTxn(), byGroup.Query("k"))), long+"+")
}

// mustPanic calls fn, which has to panic with a text that names both.
func mustPanic(t *testing.T, what string, fn func(), names ...string) {
	t.Helper()
	defer func() {
		t.Helper()
		text := fmt.Sprint(recover())
		for _, name := range names {
			if !strings.Contains(text, name) {
				t.Errorf("%s: panic %q, expected one that names %s", what, text, name)
			}
		}
	}()
	fn()
	t.Errorf("%s: no panic", what)
}

func TestAQueryOfAnIndexThatTheTableDoesNotHavePanics(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	other := statedb.NewIndex("other", func(i item) string { return i.ID })
	txn := f.db.ReadTxn()
	for what, fn := range map[string]func(q statedb.Query[item]){
		"Get":             func(q statedb.Query[item]) { f.items.Get(txn, q) },
		"GetWatch":        func(q statedb.Query[item]) { f.items.GetWatch(txn, q) },
		"List":            func(q statedb.Query[item]) { f.items.List(txn, q) },
		"ListWatch":       func(q statedb.Query[item]) { f.items.ListWatch(txn, q) },
		"Prefix":          func(q statedb.Query[item]) { f.items.Prefix(txn, q) },
		"PrefixWatch":     func(q statedb.Query[item]) { f.items.PrefixWatch(txn, q) },
		"LowerBound":      func(q statedb.Query[item]) { f.items.LowerBound(txn, q) },
		"LowerBoundWatch": func(q statedb.Query[item]) { f.items.LowerBoundWatch(txn, q) },
		"Range from":      func(q statedb.Query[item]) { f.items.Range(txn, q, byID.Query("a")) },
		"Range to":        func(q statedb.Query[item]) { f.items.RangeWatch(txn, byID.Query("a"), q) },
		"Spec":            func(q statedb.Query[item]) { f.items.Spec(txn, q) },
		"Matches":         func(q statedb.Query[item]) { f.items.Matches(q, item{}) },
	} {
		mustPanic(t, what, func() { fn(other.Query("a")) }, `"other"`, `"items"`)
		mustPanic(t, what+" of the zero query", func() { fn(statedb.Query[item]{}) }, `""`, `"items"`)
	}
	numbers := statedb.NewIndex("group", func(i item) int { return i.Number })
	mustPanic(t, "an index of that name with other keys", func() { f.items.Get(txn, numbers.Query(1)) }, `"group"`, `"items"`)
	mustPanic(t, "a range between two indexes", func() { f.items.Range(txn, byID.Query(""), byGroup.Query("z")) }, `"id"`, `"group"`, `"items"`)
	mustPanic(t, "a search for networks", func() {
		statedb.NewPrefixIndex("other", func(item) netip.Prefix { return netip.Prefix{} }).Lookup(txn, statedb.ReadOnly(f.items), netip.Addr{})
	}, `"other"`, `"items"`)
	f.update(func(txn *statedb.WriteTxn) error {
		_, err := f.items.Modify(txn, other.Query("a"), func(i item) item { return i })
		wantError(t, err, statedb.ErrUnknownIndex)
		_, err = f.items.DeletePrefix(txn, other.Query("a"))
		wantError(t, err, statedb.ErrUnknownIndex)
		return nil
	})
	_, err := f.items.LenOf(txn, "other")
	wantError(t, err, statedb.ErrUnknownIndex)
	_, err = f.items.ParseKey("other", "a")
	wantError(t, err, statedb.ErrUnknownIndex)
}

func TestSequencesMayBeRunAgainAndLeftEarly(t *testing.T) {
	f := newFixture(t, item{ID: "a"}, item{ID: "b"}, item{ID: "c"})
	all := f.items.All(f.db.ReadTxn())
	f.remove("a", "b", "c")
	for row := range all {
		if row.ID == "b" {
			break
		}
	}
	wantIDs(t, "the snapshot", ids(all), "a", "b", "c")
}

func TestMatchesSaysOfAnyRowWhatAListingWouldSayOfItsOwn(t *testing.T) {
	f := newFixture(t)
	gone := item{ID: "a", Group: "g", Tags: "x y"}
	for _, c := range []struct {
		query statedb.Query[item]
		index string
		want  bool
	}{
		{byID.Query("a"), "id", true},
		{byID.Query("g"), "id", false},
		{byGroup.Query("g"), "group", true},
		{byGroup.Query(""), "group", false},
		{byTag.Query("x"), "tag", true},
		{byTag.Query("y"), "tag", true},
		{byTag.Query("xy"), "tag", false},
	} {
		if got := f.items.Matches(c.query, gone); got != c.want || c.query.Index() != c.index {
			t.Errorf("%s %q matches: %t, expected %t", c.query.Index(), c.query.Encoded(), got, c.want)
		}
	}
}

func TestAGetByATextAllocatesNothing(t *testing.T) {
	f := newFixture(t)
	f.insert(item{ID: "a-key-of-some-length-that-is-not-short", Number: 1})
	txn, id := f.db.ReadTxn(), "a-key-of-some-length-that-is-not-short"
	if n := testing.AllocsPerRun(100, func() {
		if row, _, ok := f.items.Get(txn, byID.Query(id)); !ok || row.Number != 1 {
			t.Error("the row is not there")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A row that has no key in an index costs what it costs without the index.
func TestAnIndexWithoutKeysCostsNothing(t *testing.T) {
	none := func(item) iter.Seq[string] { return nil }
	allocations := func(indexes ...statedb.Indexer[item]) float64 {
		db := statedb.New()
		table := newTable(t, db, statedb.Schema[item]{Name: "items", Primary: byID, Secondary: indexes})
		row := item{ID: "a"}
		return testing.AllocsPerRun(100, func() {
			row.Number++
			if err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				_, _, err := table.Insert(txn, row)
				return err
			}, table); err != nil {
				t.Fatal(err)
			}
		})
	}
	without, with := allocations(), allocations(statedb.NewMultiIndex("none", none))
	if with > without && !invariant.Enabled { // whose checks make keys, too
		t.Errorf("%v allocations with the index, %v without", with, without)
	}
}
