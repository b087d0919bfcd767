package statedb_test

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb"
)

// modelRow is a row of a naive table.
type modelRow struct {
	Item     item
	Revision statedb.Revision
	spec     statedb.Revision
}

// model is a table as a plain map: what every read is compared with.
type model struct {
	rows     map[string]modelRow
	revision statedb.Revision
	strict   bool // the table is one of strictly
}

func (m model) clone() model {
	m.rows = maps.Clone(m.rows)
	return m
}

// strictly adds a defaulter and a validator, of which each may refuse.
func strictly(schema statedb.Schema[item]) statedb.Schema[item] {
	schema.Defaulters = append(schema.Defaulters, func(_ statedb.ReadTxn, i item) (item, error) {
		m := model{strict: true}
		return m.completed(i), m.incomplete(i)
	})
	schema.Validators = append(schema.Validators, func(_ statedb.ReadTxn, p statedb.Proposal[item]) error {
		if invalid(p.Object, p.Old, p.Replaces) {
			return errRefused
		}
		return nil
	})
	return schema
}

var errRefused = errors.New("refused by the test")

// completed is what the defaulter makes of a row.
func (m model) completed(i item) item {
	if m.strict && i.Tags == "" {
		i.Tags = "aa"
	}
	return i
}

// incomplete is the defaulter's refusal, if any.
func (m model) incomplete(i item) error {
	if m.strict && i.Group == "a\x00" && i.Number == 1 {
		return errRefused
	}
	return nil
}

func invalid(i, old item, replaces bool) bool {
	return i.Number == -1 && i.Group == "" || replaces && i.Number < 0 && old.Number > 0
}

// invalid is the validator's refusal of a write, if any.
func (m model) invalid(i item) error {
	i = m.completed(i)
	old, exists := m.rows[i.ID]
	i.Status = old.Item.Status
	if !m.strict || exists && i == old.Item || !invalid(i, old.Item, exists) {
		return nil
	}
	return errRefused
}

// refusal is that of an insert.
func (m model) refusal(i item) error { return cmp.Or(m.incomplete(i), m.invalid(i)) }

// insert is the third rule of spec and status.
func (m *model) insert(i item) {
	i = m.completed(i)
	i.Status = 0
	if old, exists := m.rows[i.ID]; exists {
		i.Status = old.Item.Status
		if i == old.Item {
			return
		}
		i.Status = 0
	}
	m.revision++
	m.rows[i.ID] = modelRow{i, m.revision, m.revision}
}

func (m *model) delete(id string) {
	if _, exists := m.rows[id]; exists {
		m.revision++
		delete(m.rows, id)
	}
}

func (m *model) amend(id string, revision statedb.Revision, status int) bool {
	row, exists := m.rows[id]
	if !exists || row.spec > revision {
		return false
	}
	if row.Item.Status != status {
		m.revision++
		row.Item.Status, row.Revision = status, m.revision
		m.rows[id] = row
	}
	return true
}

// entry is a row at one of its keys.
type entry[Key any] struct {
	key Key
	row modelRow
}

// modelIndex is an index of the naive table.
type modelIndex[Key any] struct {
	index     statedb.Index[item, Key]
	keys      func(item) []Key
	compare   func(a, b Key) int
	hasPrefix func(key, prefix Key) bool
	near      func(Key) []Key // the key and some that lie beside it
}

func (ix modelIndex[Key]) entries(m model) []entry[Key] {
	var all []entry[Key]
	for _, row := range m.rows {
		keys := slices.SortedFunc(slices.Values(ix.keys(row.Item)), ix.compare)
		for _, key := range slices.CompactFunc(keys, func(a, b Key) bool { return ix.compare(a, b) == 0 }) {
			all = append(all, entry[Key]{key, row})
		}
	}
	slices.SortFunc(all, func(a, b entry[Key]) int {
		return cmp.Or(ix.compare(a.key, b.key), cmp.Compare(a.row.Item.ID, b.row.Item.ID))
	})
	return all
}

// shared reports whether two rows have a key in common.
func (ix modelIndex[Key]) shared(m model) bool {
	entries := ix.entries(m)
	for i := 1; i < len(entries); i++ {
		if ix.compare(entries[i-1].key, entries[i].key) == 0 {
			return true
		}
	}
	return false
}

func matching[Key any](entries []entry[Key], match func(Key) bool) []modelRow {
	var rows []modelRow
	for _, e := range entries {
		if match(e.key) {
			rows = append(rows, e.row)
		}
	}
	return rows
}

// check compares all reads through the index at the probes, at every key and
// beside it.
func (ix modelIndex[Key]) check(items *statedb.Table[item], txn statedb.ReadTxn, m model, probes []Key) error {
	entries := ix.entries(m)
	if n, err := items.LenOf(txn, ix.index.Name()); n != len(entries) || err != nil {
		return fmt.Errorf("LenOf(%s) is %d, expected %d: %w", ix.index.Name(), n, len(entries), err)
	}
	for _, e := range entries {
		probes = append(probes, ix.near(e.key)...)
	}
	slices.SortFunc(probes, ix.compare)
	probes = slices.CompactFunc(probes, func(a, b Key) bool { return ix.compare(a, b) == 0 })
	for i, probe := range probes {
		if err := ix.checkGet(items, txn, entries, probe); err != nil {
			return err
		}
		if err := ix.checkSequences(items, txn, entries, probe); err != nil {
			return err
		}
		for _, to := range []Key{probes[0], probe, probes[min(i+1, len(probes)-1)], probes[(i+len(probes))/2], probes[len(probes)-1]} {
			if err := ix.checkRange(items, txn, entries, probe, to); err != nil {
				return err
			}
		}
	}
	return nil
}

func (ix modelIndex[Key]) checkGet(items *statedb.Table[item], txn statedb.ReadTxn, entries []entry[Key], probe Key) error {
	equal := matching(entries, func(k Key) bool { return ix.compare(k, probe) == 0 })
	row, revision, ok := items.Get(txn, ix.index.Query(probe))
	switch {
	case ok != (len(equal) > 0):
		return fmt.Errorf("Get(%s %#v) found: %t", ix.index.Name(), probe, ok)
	case ok && (row != equal[0].Item || revision != equal[0].Revision):
		return fmt.Errorf("Get(%s %#v) is %+v at %d, expected %+v", ix.index.Name(), probe, row, revision, equal[0])
	}
	return nil
}

func (ix modelIndex[Key]) checkSequences(items *statedb.Table[item], txn statedb.ReadTxn, entries []entry[Key], probe Key) error {
	q := ix.index.Query(probe)
	for _, read := range []struct {
		name  string
		query func(...statedb.ReadOption) rows
		want  []modelRow
	}{
		{
			"List", func(opts ...statedb.ReadOption) rows { return items.List(txn, q, opts...) },
			matching(entries, func(k Key) bool { return ix.compare(k, probe) == 0 }),
		},
		{
			"Prefix", func(opts ...statedb.ReadOption) rows { return items.Prefix(txn, q, opts...) },
			matching(entries, func(k Key) bool { return ix.hasPrefix(k, probe) }),
		},
		{
			"LowerBound", func(opts ...statedb.ReadOption) rows { return items.LowerBound(txn, q, opts...) },
			matching(entries, func(k Key) bool { return ix.compare(k, probe) >= 0 }),
		},
	} {
		if err := compareSequences(read.query, read.want); err != nil {
			return fmt.Errorf("%s(%s %#v): %w", read.name, ix.index.Name(), probe, err)
		}
	}
	return nil
}

func (ix modelIndex[Key]) checkRange(items *statedb.Table[item], txn statedb.ReadTxn, entries []entry[Key], from, to Key) error {
	want := matching(entries, func(k Key) bool { return ix.compare(k, from) >= 0 && ix.compare(k, to) < 0 })
	err := compareSequences(func(opts ...statedb.ReadOption) rows {
		return items.Range(txn, ix.index.Query(from), ix.index.Query(to), opts...)
	}, want)
	if err != nil {
		return fmt.Errorf("Range(%s, %#v to %#v): %w", ix.index.Name(), from, to, err)
	}
	return nil
}

// rows is what a query returns.
type rows = iter.Seq2[item, statedb.Revision]

// compareSequences asks with all kinds of options for the rows in want.
func compareSequences(query func(...statedb.ReadOption) rows, want []modelRow) error {
	reversed := slices.Clone(want)
	slices.Reverse(reversed)
	n := len(want) / 2
	for _, c := range []struct {
		name string
		got  rows
		want []modelRow
	}{
		{"forward", query(), want},
		{"reverse", query(statedb.WithReverse()), reversed},
		{"limited", query(statedb.WithLimit(n)), want[:n]},
		{"limited in reverse", query(statedb.WithLimit(n+1), statedb.WithReverse()), reversed[:min(n+1, len(want))]},
		{"limited to all", query(statedb.WithLimit(len(want))), want},
		{"limited below nothing", query(statedb.WithLimit(-1)), nil},
	} {
		if got := collect(c.got); !slices.EqualFunc(got, c.want, sameRow) {
			return fmt.Errorf("%s: %s", c.name, gocmp.Diff(c.want, got, compareRows))
		}
	}
	if got := statedb.Count(query()); got != len(want) {
		return fmt.Errorf("Count is %d, expected %d", got, len(want))
	}
	return nil
}

var compareRows = gocmp.Comparer(sameRow)

func sameRow(a, b modelRow) bool { return a.Item == b.Item && a.Revision == b.Revision }

func collect(rows func(func(item, statedb.Revision) bool)) []modelRow {
	var all []modelRow
	for row, revision := range rows {
		all = append(all, modelRow{Item: row, Revision: revision})
	}
	return all
}

func one[Key any](key func(item) Key) func(item) []Key {
	return func(i item) []Key { return []Key{key(i)} }
}

func equals[Key comparable](key, prefix Key) bool { return key == prefix }

var (
	modelByID     = modelIndex[string]{byID, one(func(i item) string { return i.ID }), strings.Compare, strings.HasPrefix, nearText}
	modelByGroup  = modelIndex[string]{byGroup, one(func(i item) string { return i.Group }), strings.Compare, strings.HasPrefix, nearText}
	modelByNumber = modelIndex[int]{byNumber, one(func(i item) int { return i.Number }), cmp.Compare[int], equals[int], nearNumber}
	modelByPlace  = modelIndex[place]{
		byPlace, one(func(i item) place { return place{i.Group, i.Number} }),
		func(a, b place) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Number, b.Number)) }, equals[place],
		func(p place) []place { return []place{p, {p.Group, p.Number + 1}, {p.Group + "\x00", p.Number}} },
	}
	modelByTag = modelIndex[string]{byTag, func(i item) []string { return strings.Fields(i.Tags) }, strings.Compare, strings.HasPrefix, nearText}
)

func nearText(s string) []string { return []string{s, s + "\x00", s[:max(len(s), 1)-1]} }

func nearNumber(n int) []int { return []int{n - 1, n, n + 1} }

// probes are keys to ask for, of rows that exist and others.
type probes struct {
	texts   []string
	numbers []int
}

func drawProbes(t *rapid.T) probes {
	return probes{
		rapid.SliceOfN(shortTexts(), 1, 4).Draw(t, "probes"),
		rapid.SliceOfN(smallNumbers(), 1, 3).Draw(t, "numbers"),
	}
}

// shortTexts draws few enough texts to meet again.
func shortTexts() *rapid.Generator[string] {
	letters := rapid.SampledFrom([]byte{0, 1, 'a', 'a', 'b', 0xff})
	random := rapid.Map(rapid.SliceOfN(letters, 0, 3), func(b []byte) string { return string(b) })
	often := rapid.SampledFrom([]string{"", "a", "a\x00", "aa"})
	return rapid.OneOf(often, often, random)
}

func smallNumbers() *rapid.Generator[int] { return rapid.IntRange(-2, 2) }

func items() *rapid.Generator[item] {
	tags := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "aa", "b", "\x00", "ab"}), 0, 4)
	return rapid.Custom(func(t *rapid.T) item {
		return item{
			shortTexts().Draw(t, "id"), shortTexts().Draw(t, "group"), smallNumbers().Draw(t, "number"),
			strings.Join(tags.Draw(t, "tags"), " "), rapid.IntRange(0, 2).Draw(t, "status"),
		}
	})
}

// check compares every read of a table with the model.
func (m model) check(table *statedb.Table[item], txn statedb.ReadTxn, p probes) error {
	places := []place{}
	for _, text := range p.texts {
		places = append(places, place{text, p.numbers[0]})
	}
	for _, err := range []error{
		modelByID.check(table, txn, m, p.texts), modelByGroup.check(table, txn, m, p.texts),
		modelByNumber.check(table, txn, m, p.numbers), modelByPlace.check(table, txn, m, places),
		modelByTag.check(table, txn, m, append([]string{"a", "aa"}, p.texts...)),
	} {
		if err != nil {
			return err
		}
	}
	all := matching(modelByID.entries(m), func(string) bool { return true })
	if err := compareSequences(func(opts ...statedb.ReadOption) rows { return table.All(txn, opts...) }, all); err != nil {
		return fmt.Errorf("All: %w", err)
	}
	if table.Len(txn) != len(m.rows) || table.Revision(txn) != m.revision {
		return fmt.Errorf("%d rows at revision %d, expected %d at %d", table.Len(txn), table.Revision(txn), len(m.rows), m.revision)
	}
	return nil
}

// uniqueness is the name of an index of items that is unique, or empty.
type uniqueness string

func drawUniqueness(t *rapid.T) uniqueness {
	return rapid.SampledFrom([]uniqueness{"", "", "place", "tag", "group"}).Draw(t, "unique index")
}

func (u uniqueness) schema() statedb.Schema[item] {
	schema := itemSchema("items")
	switch u {
	case "group":
		schema.Secondary[0] = byGroup.Unique()
	case "place":
		schema.Secondary[2] = byPlace.Unique()
	case "tag":
		schema.Secondary[3] = byTag.Unique()
	}
	return schema
}

func (u uniqueness) violatedBy(m model) bool {
	switch u {
	case "group":
		return modelByGroup.shared(m)
	case "place":
		return modelByPlace.shared(m)
	case "tag":
		return modelByTag.shared(m)
	}
	return false
}

func check(t fatal, where string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
}
