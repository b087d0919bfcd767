package statedb_test

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

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

// shared says whether two rows have a key in common.
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
func (ix modelIndex[Key]) check(items statedb.Table[item], txn statedb.ReadTxn, m model, probes []Key) error {
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

func (ix modelIndex[Key]) checkGet(items statedb.Table[item], txn statedb.ReadTxn, entries []entry[Key], probe Key) error {
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

func (ix modelIndex[Key]) checkSequences(items statedb.Table[item], txn statedb.ReadTxn, entries []entry[Key], probe Key) error {
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

func (ix modelIndex[Key]) checkRange(items statedb.Table[item], txn statedb.ReadTxn, entries []entry[Key], from, to Key) error {
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
		{"reverse", query(statedb.Reverse()), reversed},
		{"limited", query(statedb.Limit(n)), want[:n]},
		{"limited in reverse", query(statedb.Limit(n+1), statedb.Reverse()), reversed[:min(n+1, len(want))]},
		{"limited to all", query(statedb.Limit(len(want))), want},
		{"limited below nothing", query(statedb.Limit(-1)), nil},
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
func (m model) check(table statedb.Table[item], txn statedb.ReadTxn, p probes) error {
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

func TestTableReadsLikeAPlainMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		db := statedb.New(drawEngine(t))
		unique := drawUniqueness(t)
		schema, strict := unique.schema(), rapid.Bool().Draw(t, "strict")
		if strict {
			schema = strictly(schema)
		}
		r := &run{t: t, table: newTable(t, db, schema), want: model{rows: map[string]modelRow{}, strict: strict}}
		type moment struct {
			txn  statedb.ReadTxn
			want model
		}
		var past []moment
		for range rapid.IntRange(1, 6).Draw(t, "transactions") {
			r.watchSome(db.ReadTxn())
			p := drawProbes(t)
			before := r.want.clone()
			txn, err := db.WriteTxn(t.Context(), r.table)
			if err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(0, 12).Draw(t, "writes") {
				r.write(txn)
			}
			check(t, "inside the transaction", r.want.check(r.table, txn, p))
			switch {
			case rapid.IntRange(0, 3).Draw(t, "abort if 0") == 0:
				txn.Abort()
				r.expectAsleep("abort")
				r.want = before
				check(t, "transaction after abort", r.want.check(r.table, txn, p))
			case unique.violatedBy(r.want):
				_, err := txn.Commit()
				r.expectError("commit", err, true, statedb.ErrNotUnique)
				r.expectAsleep("a clash")
				r.want = before
				check(t, "transaction after a clash", r.want.check(r.table, txn, p))
			default:
				r.commit(txn, r.want.revision != before.revision)
				check(t, "transaction after commit", r.want.check(r.table, txn, p))
			}
			r.checkWatches(db.ReadTxn())
			past = append(past, moment{db.ReadTxn(), r.want.clone()})
		}
		for _, m := range past {
			check(t, "old snapshot", m.want.check(r.table, m.txn, drawProbes(t)))
		}
	})
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

// run is a table under random writes, its model, and the watches on it.
type run struct {
	t       *rapid.T
	table   statedb.RWTable[item]
	want    model
	watches []*resultWatch
}

// write makes one random write to both.
func (r *run) write(txn *statedb.WriteTxn) {
	i := items().Draw(r.t, "row")
	row, exists := r.want.rows[i.ID]
	revision := rapid.SampledFrom([]statedb.Revision{max(row.spec, 1) - 1, row.spec, row.Revision, r.want.revision + 1}).Draw(r.t, "revision")
	conflict := exists && row.spec > revision
	switch op := rapid.SampledFrom([]string{"insert", "insert", "insert", "delete", "modify", "modify by tag", "swap", "swap delete", "amend", "insert if absent", "delete prefix", "delete all"}).Draw(r.t, "write"); op {
	case "insert":
		refused := r.want.refusal(i)
		old, replaced, err := r.table.Insert(txn, i)
		r.expect(op, errorIs(err, refused))
		if refused == nil {
			r.want.insert(i)
			r.expect(op, replaced == exists && old == row.Item)
		}
	case "delete":
		old, deleted, err := r.table.Delete(txn, item{ID: i.ID})
		r.want.delete(i.ID)
		r.expect(op, err == nil && deleted == exists && old == row.Item)
	case "modify":
		old, err := r.table.Modify(txn, byID.Query(i.ID), func(item) item { return i })
		expected := cmp.Or(compared(exists, false), r.want.refusal(i))
		r.expect(op, errorIs(err, expected))
		if expected == nil {
			r.want.insert(i)
			r.expect(op, old == row.Item)
		}
	case "modify by tag":
		r.modifyByTag(txn)
	case "swap":
		_, err := r.table.CompareAndSwap(txn, revision, i)
		r.expect(op, errorIs(err, cmp.Or(r.want.incomplete(i), compared(exists, conflict), r.want.invalid(i))))
		if err == nil {
			r.want.insert(i)
		}
	case "swap delete":
		_, err := r.table.CompareAndDelete(txn, revision, item{ID: i.ID})
		r.expect(op, errorIs(err, compared(exists, conflict)))
		if err == nil {
			r.want.delete(i.ID)
		}
	case "insert if absent":
		existing, inserted, err := r.table.InsertIfAbsent(txn, i)
		expected := r.want.refusal(i)
		if exists {
			expected = nil
		}
		r.expect(op, errorIs(err, expected) && inserted == (!exists && expected == nil) && existing == row.Item)
		if inserted {
			r.want.insert(i)
		}
	case "delete prefix":
		r.deletePrefix(txn)
	case "delete all":
		r.deleteAll(txn)
	case "amend":
		amended, err := r.table.Amend(txn, item{ID: i.ID}, revision, func(current item) item {
			r.expect("amend sees the current row", current == row.Item)
			return item{ID: "other", Group: "not taken", Status: i.Status}
		})
		r.expect(op, err == nil && amended == r.want.amend(i.ID, revision, i.Status))
	}
}

func (r *run) modifyByTag(txn *statedb.WriteTxn) {
	tagged := matching(modelByTag.entries(r.want), func(tag string) bool { return tag == "aa" })
	_, err := r.table.Modify(txn, byTag.Query("aa"), func(i item) item { i.Number++; i.Tags = "b b"; return i })
	var i item
	expected := compared(len(tagged) > 0, false)
	if expected == nil {
		i = tagged[0].Item
		i.Number, i.Tags = i.Number+1, "b b"
		expected = r.want.refusal(i)
	}
	r.expect("modify by tag", errorIs(err, expected))
	if expected == nil {
		r.want.insert(i)
	}
}

// deletePrefix deletes through some index, in the order of which the model does it.
func (r *run) deletePrefix(txn *statedb.WriteTxn) {
	prefix, number := shortTexts().Draw(r.t, "prefix"), smallNumbers().Draw(r.t, "number to delete")
	c := []struct {
		query   statedb.Query[item]
		matched []modelRow
	}{
		{byID.Query(prefix), matching(modelByID.entries(r.want), func(id string) bool { return strings.HasPrefix(id, prefix) })},
		{byGroup.Query(prefix), matching(modelByGroup.entries(r.want), func(group string) bool { return strings.HasPrefix(group, prefix) })},
		{byTag.Query("a"), matching(modelByTag.entries(r.want), func(tag string) bool { return strings.HasPrefix(tag, "a") })},
		{byNumber.Query(number), matching(modelByNumber.entries(r.want), func(n int) bool { return n == number })},
	}[rapid.IntRange(0, 3).Draw(r.t, "delete by")]
	before := len(r.want.rows)
	n, err := r.table.DeletePrefix(txn, c.query)
	for _, row := range c.matched {
		r.want.delete(row.Item.ID)
	}
	r.expect("delete prefix", err == nil && n == before-len(r.want.rows))
}

// deleteAll is rare, or else tables would stay small.
func (r *run) deleteAll(txn *statedb.WriteTxn) {
	if rapid.IntRange(0, 3).Draw(r.t, "delete all if 0") != 0 {
		return
	}
	n, err := r.table.DeleteAll(txn)
	r.expect("delete all", err == nil && n == len(r.want.rows))
	for _, row := range matching(modelByID.entries(r.want), func(string) bool { return true }) {
		r.want.delete(row.Item.ID)
	}
}

func (r *run) expect(what string, ok bool) {
	r.t.Helper()
	if !ok {
		r.t.Fatalf("%s does not do as the model does", what)
	}
}

func (r *run) expectError(what string, err error, expected bool, target error) {
	r.t.Helper()
	if !expected {
		target = nil
	}
	r.expect(fmt.Sprintf("%s (error %v)", what, err), errorIs(err, target))
}

// resultWatch is a watch and the result it watches.
type resultWatch struct {
	name   string
	result func(txn statedb.ReadTxn) string
	was    string
	woken  <-chan struct{}
}

// watchSome takes every kind of watch.
func (r *run) watchSome(txn statedb.ReadTxn) {
	text, number := shortTexts().Draw(r.t, "watched"), smallNumbers().Draw(r.t, "watched number")
	for _, q := range []statedb.Query[item]{byID.Query(text), byGroup.Query(text), byNumber.Query(number), byPlace.Query(place{text, number}), byTag.Query("aa")} {
		_, _, got, _ := r.table.GetWatch(txn, q)
		r.watch("get", txn, got, func(txn statedb.ReadTxn) string {
			row, revision, ok := r.table.Get(txn, q)
			return fmt.Sprint(row, revision, ok)
		})
		_, listed := r.table.ListWatch(txn, q)
		r.watch("list", txn, listed, func(txn statedb.ReadTxn) string { return fmt.Sprint(collect(r.table.List(txn, q))) })
		_, prefixed := r.table.PrefixWatch(txn, q)
		r.watch("prefix", txn, prefixed, func(txn statedb.ReadTxn) string { return fmt.Sprint(collect(r.table.Prefix(txn, q))) })
		_, bounded := r.table.LowerBoundWatch(txn, q)
		r.watch("lower bound", txn, bounded, func(txn statedb.ReadTxn) string { return fmt.Sprint(collect(r.table.LowerBound(txn, q))) })
	}
	for _, ends := range [][2]statedb.Query[item]{
		{byID.Query(text), byID.Query(text + "b")},
		{byGroup.Query("a"), byGroup.Query(text)},
		{byNumber.Query(number), byNumber.Query(number + 2)},
		{byTag.Query("a"), byTag.Query("ab")},
	} {
		result := func(txn statedb.ReadTxn) rows { return r.table.Range(txn, ends[0], ends[1]) }
		_, ranged := r.table.RangeWatch(txn, ends[0], ends[1])
		r.watch("range", txn, ranged, func(txn statedb.ReadTxn) string { return fmt.Sprint(collect(result(txn))) })
	}
	_, all := r.table.AllWatch(txn)
	r.watch("all", txn, all, func(txn statedb.ReadTxn) string { return fmt.Sprint(collect(r.table.All(txn))) })
}

func (r *run) watch(name string, txn statedb.ReadTxn, woken <-chan struct{}, result func(statedb.ReadTxn) string) {
	r.watches = append(r.watches, &resultWatch{name, result, result(txn), woken})
}

func (r *run) commit(txn *statedb.WriteTxn, changed bool) {
	r.expectAsleep("an open transaction")
	if _, err := txn.Commit(); err != nil {
		r.t.Fatal(err)
	}
	if !changed {
		r.expectAsleep("a commit of nothing")
	}
}

func (r *run) expectAsleep(after string) {
	r.t.Helper()
	for _, w := range r.watches {
		r.expect("the "+w.name+" watch, still open after "+after+",", !closed(w.woken))
	}
}

// checkWatches keeps those that may stay open.
func (r *run) checkWatches(now statedb.ReadTxn) {
	r.watches = slices.DeleteFunc(r.watches, func(w *resultWatch) bool {
		if !closed(w.woken) {
			r.expect("the "+w.name+" watch that did not close", w.result(now) == w.was)
			return false
		}
		return true
	})
}
