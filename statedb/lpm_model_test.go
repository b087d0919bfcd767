package statedb_test

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"testing"

	"github.com/gaissmai/bart"
	"pgregory.net/rapid"

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

// networks are two tables with the same rows, of which one has several with the
// same prefix, and what they should be.
type networks struct {
	db                 *statedb.DB
	primary, secondary statedb.RWTable[network]
}

func newNetworks(t fatal) *networks { return networksIn(t, newDB()) }

func networksIn(t fatal, db *statedb.DB) *networks {
	return &networks{
		db:        db,
		primary:   newTable(t, db, statedb.Schema[network]{Name: "primary", Primary: byPrefix}),
		secondary: newTable(t, db, statedb.Schema[network]{Name: "secondary", Primary: byName, Secondary: []statedb.Indexer[network]{byPrefix}}),
	}
}

// networkModel is what the tables should be: a name for each prefix, and the
// prefix of each name.
type networkModel struct {
	primary   *bart.Table[string]
	secondary *bart.Table[[]string] // the names of a prefix, in order
	names     map[string]netip.Prefix
}

func newNetworkModel() *networkModel {
	return &networkModel{&bart.Table[string]{}, &bart.Table[[]string]{}, map[string]netip.Prefix{}}
}

func (m *networkModel) clone() *networkModel {
	next := newNetworkModel()
	for prefix, name := range m.primary.All() {
		next.primary.Insert(prefix, name)
	}
	for name, prefix := range m.names {
		next.rename(name, prefix)
	}
	return next
}

// rename gives a name another prefix, or none.
func (m *networkModel) rename(name string, prefix netip.Prefix) {
	if old, ok := m.names[name]; ok {
		names, _ := m.secondary.Get(old)
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
		m.secondary.Delete(old)
		if len(names) > 0 {
			m.secondary.Insert(old, names)
		}
		delete(m.names, name)
	}
	if prefix.IsValid() {
		names, _ := m.secondary.Get(prefix)
		names = append(slices.Clone(names), name)
		slices.Sort(names)
		m.secondary.Insert(prefix, names)
		m.names[name] = prefix
	}
}

// canonical is what an index of prefixes is documented to do.
func canonical(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// anyPrefix draws prefixes that often contain each other, have host bits, and
// come in both families and as IPv4-mapped IPv6.
func anyPrefix() *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		octets := rapid.SampledFrom([]byte{0, 10, 128, 255})
		var a [16]byte
		for i := range a {
			a[i] = octets.Draw(t, "octet")
		}
		v4 := netip.AddrFrom4([4]byte(a[:4]))
		switch rapid.IntRange(0, 9).Draw(t, "family") {
		case 0:
			return netip.PrefixFrom(netip.AddrFrom16(v4.As16()), rapid.IntRange(90, 128).Draw(t, "bits"))
		case 1, 2, 3:
			return netip.PrefixFrom(netip.AddrFrom16(a), rapid.IntRange(0, 128).Draw(t, "bits"))
		default:
			return netip.PrefixFrom(v4, rapid.IntRange(0, 32).Draw(t, "bits"))
		}
	})
}

// change writes to both tables and to the model.
func (n *networks) change(t *rapid.T, txn *statedb.WriteTxn, m *networkModel) {
	prefix := anyPrefix().Draw(t, "prefix")
	name := fmt.Sprint("n", rapid.IntRange(0, 30).Draw(t, "name"))
	row := network{name, prefix}
	if rapid.IntRange(0, 2).Draw(t, "delete if 0") > 0 {
		_, _, err1 := n.primary.Insert(txn, row)
		_, _, err2 := n.secondary.Insert(txn, row)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		m.primary.Insert(canonical(prefix), name)
		m.rename(name, canonical(prefix))
		return
	}
	_, deleted, err1 := n.primary.Delete(txn, row)
	_, _, err2 := n.secondary.Delete(txn, row)
	if _, ok := m.primary.Get(canonical(prefix)); errors.Join(err1, err2) != nil || deleted != ok {
		t.Fatalf("deleted %v: %t, %v, %v; expected %t", prefix, deleted, err1, err2, ok)
	}
	m.primary.Delete(canonical(prefix))
	m.rename(name, netip.Prefix{})
}

func TestContainmentAgreesWithBart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := networksIn(t, newDB()), newNetworkModel()
		type kept struct {
			txn statedb.ReadTxn
			m   *networkModel
		}
		var versions []kept
		for range rapid.IntRange(1, 8).Draw(t, "transactions") {
			txn, err := n.db.WriteTxn(t.Context(), n.primary, n.secondary)
			if err != nil {
				t.Fatal(err)
			}
			next := m.clone()
			watched := n.watchAll(t, rapid.SliceOfN(anyPrefix(), 3, 3).Draw(t, "watched"))
			for range rapid.IntRange(0, 6).Draw(t, "changes") {
				n.change(t, txn, next)
			}
			n.check(t, txn, next)
			if rapid.IntRange(0, 3).Draw(t, "abort if 0") == 0 {
				txn.Abort()
			} else if _, err := txn.Commit(); err != nil {
				t.Fatal(err)
			} else {
				m = next
			}
			watched.check(t, n.db.ReadTxn())
			versions = append(versions, kept{n.db.ReadTxn(), m})
		}
		for _, v := range versions {
			n.check(t, v.txn, v.m)
		}
	})
}

// check compares all searches for a random prefix.
func (n *networks) check(t *rapid.T, txn statedb.ReadTxn, m *networkModel) {
	prefix := anyPrefix().Draw(t, "probe")
	probe := canonical(prefix)
	one := func(name string) []string { return []string{name} }

	checkLookup(t, n.primary, txn, prefix, m.primary, one)
	same(t, n.primary, prefix, "containing", byPrefix.Containing(txn, n.primary, prefix), supernets(m.primary, probe, one))
	same(t, n.primary, prefix, "within", byPrefix.Within(txn, n.primary, prefix), subnets(m.primary, probe, one))

	all := func(names []string) []string { return names }
	checkLookup(t, n.secondary, txn, prefix, m.secondary, all)
	same(t, n.secondary, prefix, "containing", byPrefix.Containing(txn, n.secondary, prefix), supernets(m.secondary, probe, all))
	same(t, n.secondary, prefix, "within", byPrefix.Within(txn, n.secondary, prefix), subnets(m.secondary, probe, all))

	for _, table := range []statedb.Table[network]{n.primary, n.secondary} {
		want := names(byPrefix.Within(txn, table, prefix))
		slices.Reverse(want)
		same(t, table, prefix, "within, reverse", byPrefix.Within(txn, table, prefix, statedb.Reverse()), want)
		want = names(byPrefix.Containing(txn, table, prefix))
		slices.Reverse(want)
		same(t, table, prefix, "containing, reverse", byPrefix.Containing(txn, table, prefix, statedb.Reverse(), statedb.Limit(2)), want[:min(2, len(want))])
	}
}

func checkLookup[V any](t *rapid.T, table statedb.Table[network], txn statedb.ReadTxn, prefix netip.Prefix, model *bart.Table[V], names func(V) []string) {
	probe := canonical(prefix)
	row, _, ok := byPrefix.LookupPrefix(txn, table, prefix)
	if longest, value, want := model.LookupPrefixLPM(probe); ok != want || ok && (canonical(row.Prefix) != longest || row.Name != names(value)[0]) {
		t.Fatalf("%s: found %v, %t for %v, expected %v, %t", table.Name(), row, ok, prefix, longest, want)
	}
	row, _, ok = byPrefix.Lookup(txn, table, prefix.Addr())
	if value, want := model.Lookup(prefix.Addr().Unmap()); ok != want || ok && row.Name != names(value)[0] {
		t.Fatalf("%s: found %v, %t for %v, expected %v, %t", table.Name(), row, ok, prefix.Addr(), value, want)
	}
}

// supernets returns the names of what contains prefix, the shortest first.
func supernets[V any](model *bart.Table[V], prefix netip.Prefix, names func(V) []string) (found []string) {
	for _, value := range model.Supernets(prefix) {
		found = append(slices.Clone(names(value)), found...) // bart has the longest first
	}
	return found
}

func subnets[V any](model *bart.Table[V], prefix netip.Prefix, names func(V) []string) (found []string) {
	for _, value := range model.Subnets(prefix) {
		found = append(found, names(value)...)
	}
	return found
}

func names(rows iter.Seq2[network, statedb.Revision]) (found []string) {
	for row := range rows {
		found = append(found, row.Name)
	}
	return found
}

func same(t *rapid.T, table statedb.TableMeta, prefix netip.Prefix, search string, rows iter.Seq2[network, statedb.Revision], want []string) {
	if got := names(rows); !slices.Equal(got, want) {
		t.Fatalf("%s: %s %v: %v, expected %v", table.Name(), search, prefix, got, want)
	}
}

// watched are searches, what they have found, and their watches.
type watched []watchedSearch

type watchedSearch struct {
	what   string
	search func(statedb.ReadTxn) ([]string, <-chan struct{})
	found  []string
	watch  <-chan struct{}
}

func (n *networks) watchAll(t *rapid.T, prefixes []netip.Prefix) (w watched) {
	txn := n.db.ReadTxn()
	for _, p := range prefixes {
		for _, table := range []statedb.Table[network]{n.primary, n.secondary} {
			for what, search := range prefixSearches(table, p) {
				found, watch := search(txn)
				w = append(w, watchedSearch{fmt.Sprint(table.Name(), ": ", what, " ", p), search, found, watch})
			}
		}
	}
	slices.SortFunc(w, func(a, b watchedSearch) int { return cmp.Compare(a.what, b.what) })
	return w
}

func prefixSearches(table statedb.Table[network], p netip.Prefix) map[string]func(statedb.ReadTxn) ([]string, <-chan struct{}) {
	one := func(row network, revision statedb.Revision, ok bool) []string {
		return []string{fmt.Sprint(row, revision, ok)}
	}
	return map[string]func(statedb.ReadTxn) ([]string, <-chan struct{}){
		"lookup": func(txn statedb.ReadTxn) ([]string, <-chan struct{}) {
			row, revision, watch, ok := byPrefix.LookupWatch(txn, table, p.Addr())
			return one(row, revision, ok), watch
		},
		"lookup prefix": func(txn statedb.ReadTxn) ([]string, <-chan struct{}) {
			row, revision, watch, ok := byPrefix.LookupPrefixWatch(txn, table, p)
			return one(row, revision, ok), watch
		},
		"containing": func(txn statedb.ReadTxn) ([]string, <-chan struct{}) {
			rows, watch := byPrefix.ContainingWatch(txn, table, p)
			return revisions(rows), watch
		},
		"within": func(txn statedb.ReadTxn) ([]string, <-chan struct{}) {
			rows, watch := byPrefix.WithinWatch(txn, table, p)
			return revisions(rows), watch
		},
	}
}

func revisions(rows iter.Seq2[network, statedb.Revision]) (found []string) {
	for row, revision := range rows {
		found = append(found, fmt.Sprint(row.Name, "@", revision))
	}
	return found
}

// check wants the watch of every search that finds something else now closed.
func (w watched) check(t *rapid.T, txn statedb.ReadTxn) {
	for _, s := range w {
		if now, _ := s.search(txn); !slices.Equal(now, s.found) && !closed(s.watch) {
			t.Fatalf("%s: found %v, now %v, and the watch is open", s.what, s.found, now)
		}
	}
}
