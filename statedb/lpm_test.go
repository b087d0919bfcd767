package statedb_test

import (
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/statedb"
)

// network is a row with a prefix, which is its primary key in one table and a
// secondary one in another.
type network struct {
	Name   string
	Prefix netip.Prefix
}

var (
	byPrefix = statedb.NewPrefixIndex("prefix", func(n network) netip.Prefix { return n.Prefix })
	byName   = statedb.NewIndex("name", func(n network) string { return n.Name })
)

// networks are two tables with the same rows, of which one may have several with the
// same prefix.
type networks struct {
	db                 *statedb.DB
	primary, secondary *statedb.RWTable[network]
}

func newNetworks(t fatal) *networks {
	db := newDB()
	return &networks{
		db:        db,
		primary:   newTable(t, db, statedb.Schema[network]{Name: "primary", Primary: byPrefix}),
		secondary: newTable(t, db, statedb.Schema[network]{Name: "secondary", Primary: byName, Secondary: []statedb.Indexer[network]{byPrefix}}),
	}
}

func names(rows iter.Seq2[network, statedb.Revision]) (found []string) {
	for row := range rows {
		found = append(found, row.Name)
	}
	return found
}

func (n *networks) insert(t *testing.T, rows ...network) {
	t.Helper()
	err := n.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := n.primary.Insert(txn, row); err != nil {
				return err
			}
			if _, _, err := n.secondary.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, n.primary, n.secondary)
	if err != nil {
		t.Fatal(err)
	}
}

// networksOf has one row, named after its prefix, for each prefix.
func networksOf(t *testing.T, prefixes ...string) *networks {
	t.Helper()
	n := newNetworks(t)
	for _, p := range prefixes {
		n.insert(t, network{p, netip.MustParsePrefix(p)})
	}
	return n
}

func (n *networks) lookup(txn statedb.ReadTxn, addr string) string {
	row, _, _ := byPrefix.Lookup(txn, statedb.ReadOnly(n.primary), netip.MustParseAddr(addr))
	return row.Name
}

func TestTheLongestPrefixMatches(t *testing.T) {
	n := networksOf(t, "0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "::/0", "2001:db8::/32", "2001:db8::1/128")
	for addr, want := range map[string]string{
		"10.1.2.3":              "10.1.2.3/32",
		"10.1.2.4":              "10.1.0.0/16",
		"10.2.0.0":              "10.0.0.0/8",
		"11.0.0.0":              "0.0.0.0/0",
		"2001:db8::1":           "2001:db8::1/128",
		"2001:db8::2":           "2001:db8::/32",
		"fe80::1%eth0":          "::/0",
		"::ffff:10.1.0.1":       "10.1.0.0/16",
		"::ffff:255.255.255.25": "0.0.0.0/0",
	} {
		if got := n.lookup(n.db.ReadTxn(), addr); got != want {
			t.Errorf("%s matches %q, expected %q", addr, got, want)
		}
	}
}

func TestFamiliesDoNotContainEachOther(t *testing.T) {
	six := networksOf(t, "::/0", "::/96", "::ffff:0:0/95")
	for _, addr := range []string{"0.0.0.0", "10.0.0.1", "::ffff:10.0.0.1"} {
		if got := six.lookup(six.db.ReadTxn(), addr); got != "" {
			t.Errorf("%s matches %q, expected nothing", addr, got)
		}
	}
	four := networksOf(t, "0.0.0.0/0")
	if got := four.lookup(four.db.ReadTxn(), "::"); got != "" {
		t.Errorf(":: matches %q, expected nothing", got)
	}
	got := names(byPrefix.Within(four.db.ReadTxn(), statedb.ReadOnly(four.primary), netip.MustParsePrefix("::/0")))
	if len(got) > 0 {
		t.Errorf("inside ::/0: %v, expected nothing", got)
	}
}

func TestHostBitsDoNotCount(t *testing.T) {
	n := networksOf(t, "10.0.0.5/8", "10.0.0.0/8", "2001:db8::5/32", "::ffff:10.0.0.7/104")
	txn := n.db.ReadTxn()
	if got := n.primary.Len(txn); got != 2 {
		t.Errorf("%d rows with two different networks", got)
	}
	row, _, ok := n.primary.Get(txn, byPrefix.Query(netip.MustParsePrefix("10.9.9.9/8")))
	if !ok || row.Name != "::ffff:10.0.0.7/104" {
		t.Errorf("found %v, %t; expected the last one written", row, ok)
	}
	if got := n.primary.Key(row); got != "10.0.0.0/8" {
		t.Errorf("the key has the text %q", got)
	}
	got := names(n.secondary.List(txn, byPrefix.Query(netip.MustParsePrefix("10.0.0.1/8"))))
	if !slices.Equal(got, []string{"10.0.0.0/8", "10.0.0.5/8", "::ffff:10.0.0.7/104"}) {
		t.Errorf("rows with 10.0.0.0/8: %v", got)
	}
}

func TestInvalidPrefixesContainNothing(t *testing.T) {
	n := networksOf(t, "0.0.0.0/0", "::/0")
	n.insert(t, network{Name: "invalid"})
	txn := n.db.ReadTxn()
	for _, table := range []*statedb.Table[network]{statedb.ReadOnly(n.primary), statedb.ReadOnly(n.secondary)} {
		if row, _, ok := table.Get(txn, byPrefix.Query(netip.Prefix{})); !ok || row.Name != "invalid" {
			t.Errorf("%s: found %v, %t by the invalid prefix itself", table.Name(), row, ok)
		}
		if row, _, watch, ok := byPrefix.LookupWatch(txn, table, netip.Addr{}); ok || watch != nil {
			t.Errorf("%s: found %v for no address", table.Name(), row)
		}
		if got := names(byPrefix.Containing(txn, table, netip.Prefix{})); got != nil {
			t.Errorf("%s: %v contain no prefix", table.Name(), got)
		}
		if got := names(byPrefix.Within(txn, table, netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), 33))); got != nil {
			t.Errorf("%s: %v are inside of no prefix", table.Name(), got)
		}
		if got := names(byPrefix.Within(txn, table, netip.MustParsePrefix("0.0.0.0/0"))); !slices.Equal(got, []string{"0.0.0.0/0"}) {
			t.Errorf("%s: %v are inside of 0.0.0.0/0", table.Name(), got)
		}
	}
}

func TestASearchForNetworksInAnotherIndexPanics(t *testing.T) {
	n := networksOf(t, "0.0.0.0/0")
	txn, addr := n.db.ReadTxn(), netip.MustParseAddr("10.0.0.1")
	ordinary := statedb.NewIndex("prefix", func(n network) netip.Prefix { return n.Prefix })
	other := newTable(t, n.db, statedb.Schema[network]{Name: "ordinary", Primary: ordinary})
	none := statedb.PrefixIndex[network]{}
	mustPanic(t, "an index of another kind with the same name", func() { byPrefix.Lookup(n.db.ReadTxn(), statedb.ReadOnly(other), addr) }, `"prefix"`, `"ordinary"`)
	mustPanic(t, "an index that the table does not have", func() {
		statedb.NewPrefixIndex("none", network.prefix).Lookup(txn, statedb.ReadOnly(n.primary), addr)
	}, `"none"`, n.primary.Name())
	mustPanic(t, "the zero index", func() { none.Lookup(txn, statedb.ReadOnly(n.primary), addr) }, n.primary.Name())
	if found(byPrefix.Lookup(newDB().ReadTxn(), statedb.ReadOnly(n.primary), addr)) {
		t.Error("a snapshot of another database finds something")
	}
	if _, err := statedb.NewTable(n.db, statedb.Schema[network]{Name: "wrong", Primary: none}); err == nil {
		t.Error("the zero index was accepted")
	}
}

func (n network) prefix() netip.Prefix { return n.Prefix }

func found(_ network, _ statedb.Revision, ok bool) bool { return ok }

func TestANewLongerPrefixClosesTheWatchOfALookup(t *testing.T) {
	n := networksOf(t, "10.0.0.0/8", "10.1.0.0/16", "192.168.0.0/16", "::/0")
	addr := netip.MustParseAddr("10.1.2.3")
	row, _, watch, ok := byPrefix.LookupWatch(n.db.ReadTxn(), statedb.ReadOnly(n.primary), addr)
	if !ok || row.Name != "10.1.0.0/16" {
		t.Fatalf("found %v, %t", row, ok)
	}
	for _, elsewhere := range []string{"192.168.1.0/24", "10.2.0.0/16", "10.0.0.0/9", "10.0.0.0/15", "2001:db8::/32", "0.0.0.0/0"} {
		n.insert(t, network{elsewhere, netip.MustParsePrefix(elsewhere)})
	}
	if closed(watch) {
		t.Error("prefixes that do not matter closed the watch")
	}
	n.insert(t, network{"new", netip.MustParsePrefix("10.1.2.0/23")})
	if !closed(watch) {
		t.Error("a longer prefix did not close the watch")
	}
}

func TestALookupInsideATransactionSeesItsWrites(t *testing.T) {
	n := networksOf(t, "10.0.0.0/8")
	txn, err := n.db.WriteTxn(t.Context(), n.primary)
	if err != nil {
		t.Fatal(err)
	}
	defer txn.Abort()
	longer := network{"longer", netip.MustParsePrefix("10.1.0.0/16")}
	if _, _, err := n.primary.Insert(txn, longer); err != nil {
		t.Fatal(err)
	}
	if got := n.lookup(txn, "10.1.0.1"); got != "longer" {
		t.Errorf("found %q", got)
	}
	if got := n.lookup(n.db.ReadTxn(), "10.1.0.1"); got != "10.0.0.0/8" {
		t.Errorf("found %q outside", got)
	}
	within := byPrefix.Within(txn, statedb.ReadOnly(n.primary), netip.MustParsePrefix("10.0.0.0/8"))
	containing := byPrefix.Containing(txn, statedb.ReadOnly(n.primary), longer.Prefix)
	for row := range within { // what was there when it was asked for
		if _, _, err := n.primary.Delete(txn, row); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(containing); !slices.Equal(got, []string{"10.0.0.0/8", "longer"}) {
		t.Errorf("a sequence was changed by writes after it: %v", got)
	}
	if got := n.lookup(txn, "10.1.0.1"); got != "" {
		t.Errorf("found %q after all were deleted", got)
	}
}

// node is a row with any number of prefixes.
type node struct {
	Name     string
	Prefixes string // separated by spaces
}

func (n node) prefixes() iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		for text := range strings.FieldsSeq(n.Prefixes) {
			if !yield(netip.MustParsePrefix(text)) {
				return
			}
		}
	}
}

func TestARowMayHaveManyPrefixesOrNone(t *testing.T) {
	db := newDB()
	byNode := statedb.NewMultiPrefixIndex("prefix", node.prefixes)
	nodes := newTable(t, db, statedb.Schema[node]{
		Name:      "nodes",
		Primary:   statedb.NewIndex("name", func(n node) string { return n.Name }),
		Secondary: []statedb.Indexer[node]{byNode},
	})
	for _, row := range []node{{"a", "10.1.0.0/16 10.2.0.0/16 10.1.0.5/16"}, {"b", "10.1.1.0/24"}, {"c", ""}, {"b", "10.2.1.0/24"}} {
		err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := nodes.Insert(txn, row)
			return err
		}, nodes)
		if err != nil {
			t.Fatal(err)
		}
	}
	txn := db.ReadTxn()
	for addr, want := range map[string]string{"10.1.1.1": "a", "10.2.1.1": "b", "10.2.2.2": "a", "10.3.0.0": ""} {
		if row, _, _ := byNode.Lookup(txn, statedb.ReadOnly(nodes), netip.MustParseAddr(addr)); row.Name != want {
			t.Errorf("%s is of %q, expected %q", addr, row.Name, want)
		}
	}
	if got, err := nodes.LenOf(txn, "prefix"); got != 3 || err != nil {
		t.Errorf("%d prefixes, %v; expected 3", got, err)
	}
}

func TestPrefixesByText(t *testing.T) {
	n := networksOf(t, "10.0.0.0/8", "9.0.0.0/8", "10.0.0.0/16", "::/0")
	table, err := n.db.Table(n.db.ReadTxn(), "primary")
	if err != nil {
		t.Fatal(err)
	}
	row, ok, err := table.Get(n.db.ReadTxn(), "10.1.2.3/8")
	if !ok || err != nil || row.Key != "10.0.0.0/8" {
		t.Errorf("found %v, %t, %v", row, ok, err)
	}
	_, _, err = table.Get(n.db.ReadTxn(), "10.0.0.0")
	wantError(t, err, statedb.ErrBadKey)
	got := names(n.primary.All(n.db.ReadTxn()))
	if !slices.Equal(got, []string{"9.0.0.0/8", "10.0.0.0/8", "10.0.0.0/16", "::/0"}) {
		t.Errorf("in the order %v", got)
	}
}

func TestAUniqueIndexOfNetworksCanStillBeSearched(t *testing.T) {
	type network struct {
		ID     int
		Prefix netip.Prefix
	}
	db := newDB()
	byPrefix := statedb.NewPrefixIndex("prefix", func(n network) netip.Prefix { return n.Prefix }).Unique()
	table := newTable(t, db, statedb.Schema[network]{
		Name:      "networks",
		Primary:   statedb.NewIndex("id", func(n network) int { return n.ID }),
		Secondary: []statedb.Indexer[network]{byPrefix},
	})
	insert := func(id int, prefix string) error {
		return db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, network{id, netip.MustParsePrefix(prefix)})
			return err
		}, table)
	}
	check(t, "insert", insert(1, "10.0.0.0/8"))
	wantError(t, insert(2, "10.0.0.0/8"), statedb.ErrNotUnique)
	if row, _, ok := byPrefix.Lookup(db.ReadTxn(), statedb.ReadOnly(table), netip.MustParseAddr("10.1.2.3")); !ok || row.ID != 1 {
		t.Errorf("found %+v, %t", row, ok)
	}
}
