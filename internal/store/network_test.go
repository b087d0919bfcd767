package store

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	"github.com/gaissmai/bart"
	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb/index"
)

// network is a row with a prefix, which is its primary key in one table and a
// secondary one in another.
type network struct {
	Name   string
	Prefix netip.Prefix
}

// networks are two tables with the same rows, of which one has several with the
// same prefix, and what they should be.
type networks struct {
	db                 *DB
	primary, secondary networkTable
}

// networkTable is a table with an index of networks.
type networkTable struct {
	*Table
	byPrefix *Index
}

func newNetworks(t *rapid.T) *networks {
	db := New()
	byPrefix := testIndexOf("prefix", index.Prefixes(), func(n network) netip.Prefix { return n.Prefix })
	byPrefix.Networks = true
	byName := testIndex("name", func(n network) string { return n.Name })
	table := func(name string, indexes ...*Index) networkTable {
		table, err := NewTable(db, name, rowsByValue[network](indexes...))
		if err != nil {
			t.Fatal(err)
		}
		return networkTable{table, byPrefix}
	}
	return &networks{db: db, primary: table("primary", byPrefix), secondary: table("secondary", byName, byPrefix)}
}

func (n *networks) tables() []networkTable { return []networkTable{n.primary, n.secondary} }

func (t networkTable) search(txn ReadTxn, p netip.Prefix) *NetworkSearch {
	search := t.SearchNetworks(txn, t.byPrefix, p)
	return &search
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
func (n *networks) change(t *rapid.T, txn *WriteTxn, m *networkModel) {
	prefix := anyPrefix().Draw(t, "prefix")
	name := fmt.Sprint("n", rapid.IntRange(0, 30).Draw(t, "name"))
	row := network{name, prefix}
	if rapid.IntRange(0, 2).Draw(t, "delete if 0") > 0 {
		_, err1 := n.primary.Insert(txn, unsafe.Pointer(&row))
		_, err2 := n.secondary.Insert(txn, unsafe.Pointer(&row))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		m.primary.Insert(canonical(prefix), name)
		m.rename(name, canonical(prefix))
		return
	}
	deleted, err1 := n.primary.Delete(txn, unsafe.Pointer(&row))
	_, err2 := n.secondary.Delete(txn, unsafe.Pointer(&row))
	if _, ok := m.primary.Get(canonical(prefix)); errors.Join(err1, err2) != nil || (deleted != nil) != ok {
		t.Fatalf("deleted %v: %t, %v, %v; expected %t", prefix, deleted != nil, err1, err2, ok)
	}
	m.primary.Delete(canonical(prefix))
	m.rename(name, netip.Prefix{})
}

func TestContainmentAgreesWithBart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := newNetworks(t), newNetworkModel()
		type kept struct {
			txn ReadTxn
			m   *networkModel
		}
		var versions []kept
		for range rapid.IntRange(1, 8).Draw(t, "transactions") {
			txn, err := n.db.WriteTxn(t.Context(), n.primary.Table, n.secondary.Table)
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
func (n *networks) check(t *rapid.T, txn ReadTxn, m *networkModel) {
	prefix := anyPrefix().Draw(t, "probe")
	probe := canonical(prefix)
	one := func(name string) []string { return []string{name} }

	checkLongest(t, n.primary, txn, prefix, m.primary, one)
	same(t, n.primary, prefix, "containing", n.primary.search(txn, prefix).Containing(nil), supernets(m.primary, probe, one))
	same(t, n.primary, prefix, "within", n.primary.search(txn, prefix).Within(nil), subnets(m.primary, probe, one))

	all := func(names []string) []string { return names }
	checkLongest(t, n.secondary, txn, prefix, m.secondary, all)
	same(t, n.secondary, prefix, "containing", n.secondary.search(txn, prefix).Containing(nil), supernets(m.secondary, probe, all))
	same(t, n.secondary, prefix, "within", n.secondary.search(txn, prefix).Within(nil), subnets(m.secondary, probe, all))

	for _, table := range n.tables() {
		search := table.search(txn, prefix)
		want := names(search.Within(nil))
		slices.Reverse(want)
		same(t, table, prefix, "within, reverse", search.Within([]ReadOption{WithReverse()}), want)
		want = names(search.Containing(nil))
		slices.Reverse(want)
		same(t, table, prefix, "containing, reverse", search.Containing([]ReadOption{WithReverse(), WithLimit(2)}), want[:min(2, len(want))])
	}
}

func checkLongest[V any](t *rapid.T, table networkTable, txn ReadTxn, prefix netip.Prefix, model *bart.Table[V], names func(V) []string) {
	probe := canonical(prefix)
	e := table.search(txn, prefix).Longest()
	if longest, value, want := model.LookupPrefixLPM(probe); want != (e != nil) || want && (canonical(networkIn(e).Prefix) != longest || networkIn(e).Name != names(value)[0]) {
		t.Fatalf("%s: found %v for %v, expected %v, %t", table.Name(), networkIn(e), prefix, longest, want)
	}
	addr := prefix.Addr()
	e = table.search(txn, netip.PrefixFrom(addr, addr.BitLen())).Longest()
	if value, want := model.Lookup(addr.Unmap()); want != (e != nil) || want && networkIn(e).Name != names(value)[0] {
		t.Fatalf("%s: found %v for %v, expected %v, %t", table.Name(), networkIn(e), addr, value, want)
	}
}

// networkIn returns the row of an entry, which may be nil.
func networkIn(e *Entry) network {
	if e == nil {
		return network{}
	}
	return *(*network)(e.Row())
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

func names(selection *Selection) (found []string) {
	for e := range entriesOf(selection) {
		found = append(found, networkIn(e).Name)
	}
	return found
}

func entriesOf(selection *Selection) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		var s Scan
		s.Start(selection)
		for run := s.Next(); len(run) > 0; run = s.Next() {
			for _, leaf := range run {
				if !yield(s.Entry(leaf)) {
					return
				}
			}
		}
	}
}

func same(t *rapid.T, table networkTable, prefix netip.Prefix, search string, selection *Selection, want []string) {
	if got := names(selection); !slices.Equal(got, want) {
		t.Fatalf("%s: %s %v: %v, expected %v", table.Name(), search, prefix, got, want)
	}
}

// watched are searches, what they have found, and their watches.
type watched []watchedSearch

type watchedSearch struct {
	what   string
	search func(ReadTxn) ([]string, <-chan struct{})
	found  []string
	watch  <-chan struct{}
}

func (n *networks) watchAll(t *rapid.T, prefixes []netip.Prefix) (w watched) {
	txn := n.db.ReadTxn()
	for _, p := range prefixes {
		for _, table := range n.tables() {
			for what, search := range prefixSearches(table, p) {
				found, watch := search(txn)
				w = append(w, watchedSearch{fmt.Sprint(table.Name(), ": ", what, " ", p), search, found, watch})
			}
		}
	}
	slices.SortFunc(w, func(a, b watchedSearch) int { return cmp.Compare(a.what, b.what) })
	return w
}

func prefixSearches(table networkTable, p netip.Prefix) map[string]func(ReadTxn) ([]string, <-chan struct{}) {
	longest := func(txn ReadTxn, p netip.Prefix) ([]string, <-chan struct{}) {
		e, watch := table.search(txn, p).LongestWatch()
		if e == nil {
			return nil, watch
		}
		return []string{fmt.Sprint(networkIn(e), e.Revision())}, watch
	}
	return map[string]func(ReadTxn) ([]string, <-chan struct{}){
		"longest for the address": func(txn ReadTxn) ([]string, <-chan struct{}) {
			return longest(txn, netip.PrefixFrom(p.Addr(), p.Addr().BitLen()))
		},
		"longest": func(txn ReadTxn) ([]string, <-chan struct{}) { return longest(txn, p) },
		"containing": func(txn ReadTxn) ([]string, <-chan struct{}) {
			rows, watch := table.search(txn, p).ContainingWatch(nil)
			return revisions(rows), watch
		},
		"within": func(txn ReadTxn) ([]string, <-chan struct{}) {
			rows, watch := table.search(txn, p).WithinWatch(nil)
			return revisions(rows), watch
		},
	}
}

func revisions(selection *Selection) (found []string) {
	for e := range entriesOf(selection) {
		found = append(found, fmt.Sprint(networkIn(e).Name, "@", e.Revision()))
	}
	return found
}

// check wants the watch of every search that finds something else now closed.
func (w watched) check(t *rapid.T, txn ReadTxn) {
	for _, s := range w {
		if now, _ := s.search(txn); !slices.Equal(now, s.found) && !isClosed(s.watch) {
			t.Fatalf("%s: found %v, now %v, and the watch is open", s.what, s.found, now)
		}
	}
}
