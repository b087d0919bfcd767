package statedb_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb"
)

// FuzzTables looks for operations after which a table does not do as its model.
// A run needs some kilobytes of input, which the fuzzer would hardly find by itself.
func FuzzTables(f *testing.F) {
	for seed := range byte(8) {
		input := make([]byte, 1<<14)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(input)
		f.Add(input)
	}
	f.Fuzz(rapid.MakeFuzz(doLikeTheirModels(func() {})))
}

func TestTableReadsLikeAPlainMap(t *testing.T) { rapid.Check(t, doLikeTheirModels(func() {})) }

// TestTableReadsLikeAPlainMapUnderTheCollector has the collector run at every write:
// it notices pointers that it does not know, and frees what is kept by no other.
func TestTableReadsLikeAPlainMapUnderTheCollector(t *testing.T) {
	const few = 4
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		if runs++; runs <= few {
			doLikeTheirModels(runtime.GC)(t)
		}
	})
}

// run is some tables under random operations.
type run struct {
	t       *rapid.T
	atWrite func()
	db      *statedb.DB
	tables  []*modelTable
	txn     *statedb.WriteTxn
	past    []moment
}

// modelTable is a table, its model, and who looks on.
type modelTable struct {
	*statedb.RWTable[item]
	unique  uniqueness
	want    model // as the open transaction sees it
	before  model // as committed
	open    bool  // the transaction has the table
	watches []*resultWatch
	cursors [2]*modelCursor
}

// modelCursor is a cursor, and what its changes fold to.
type modelCursor struct {
	of     *modelTable
	cursor *statedb.Cursor[item]
	folded map[string]item
}

// moment is a snapshot that is kept, and what it should be for ever.
type moment struct {
	txn  statedb.ReadTxn
	want []model
}

// doLikeTheirModels returns a test of random transactions over two tables: reads,
// errors, watches and changes are those of plain maps.
func doLikeTheirModels(atWrite func()) func(*rapid.T) {
	return func(t *rapid.T) {
		r := &run{t: t, atWrite: atWrite, db: newDB()}
		r.follow(r.add("", false))
		r.follow(r.add(drawUniqueness(t), rapid.Bool().Draw(t, "strict")))
		defer r.close()
		for range rapid.IntRange(1, 6).Draw(t, "transactions") {
			r.transaction()
			r.keep()
		}
		for _, m := range r.past {
			for i, l := range r.tables {
				r.checkReads("old snapshot", m.want[i], l, m.txn)
			}
		}
		for _, l := range r.tables {
			for _, c := range l.cursors {
				r.fold(c, 1<<20)
			}
		}
	}
}

// add makes a table, which also has an index of networks.
func (r *run) add(unique uniqueness, strict bool) *modelTable {
	schema := unique.schema()
	schema.Name = fmt.Sprint("table-", len(r.tables))
	schema.Secondary = append(schema.Secondary, byNetwork)
	if strict {
		schema = strictly(schema)
	}
	l := &modelTable{RWTable: newTable(r.t, r.db, schema), unique: unique, want: model{rows: map[string]modelRow{}, strict: strict}}
	l.before = l.want.clone()
	r.tables = append(r.tables, l)
	return l
}

// follow opens the cursors on a table, of which few changes are kept.
func (r *run) follow(l *modelTable) {
	statedb.SetMinWindow(l, 8)
	for i := range l.cursors {
		l.cursors[i] = &modelCursor{of: l}
		l.cursors[i].follow(0)
	}
}

func (r *run) close() {
	for _, l := range r.tables {
		for _, c := range l.cursors {
			c.cursor.Close()
		}
	}
}

// keep keeps the newest snapshot.
func (r *run) keep() {
	m := moment{txn: r.db.ReadTxn()}
	for _, l := range r.tables {
		m.want = append(m.want, l.before.clone())
	}
	r.past = append(r.past, m)
}

func (r *run) checkReads(where string, want model, l *modelTable, txn statedb.ReadTxn) {
	r.t.Helper()
	check(r.t, where, want.check(statedb.ReadOnly(l.RWTable), txn, drawProbes(r.t)))
	check(r.t, where, want.checkNetworks(statedb.ReadOnly(l.RWTable), txn))
}

func (r *run) transaction() {
	for _, l := range r.tables {
		r.watchSome(l)
	}
	r.begin()
	for range rapid.IntRange(0, 12).Draw(r.t, "operations") {
		l := rapid.SampledFrom(r.tables).Draw(r.t, "table")
		switch rapid.IntRange(0, 9).Draw(r.t, "fold if 0, follow if 1") {
		case 0:
			r.fold(l.cursors[rapid.IntRange(0, 1).Draw(r.t, "cursor")], rapid.IntRange(1, 8).Draw(r.t, "changes"))
		case 1:
			after := rapid.SampledFrom([]statedb.Revision{0, l.before.revision, l.before.revision / 2}).Draw(r.t, "after")
			l.cursors[rapid.IntRange(0, 1).Draw(r.t, "cursor")].follow(after)
		default:
			r.write(l)
			r.atWrite()
		}
	}
	r.end(rapid.IntRange(0, 3).Draw(r.t, "abort if 0") > 0)
	for _, l := range r.tables {
		r.checkWatches(l)
	}
}

// begin opens a transaction on some of the tables.
func (r *run) begin() {
	opened := rapid.SampledFrom([][]*modelTable{r.tables, r.tables[1:], r.tables[:1], r.tables}).Draw(r.t, "opened")
	metas := make([]statedb.TableMeta, len(opened))
	for i, l := range opened {
		l.open, metas[i] = true, l
	}
	var err error
	if r.txn, err = r.db.WriteTxn(r.t.Context(), metas...); err != nil {
		r.t.Fatal(err)
	}
}

// end commits or aborts, and compares all reads before and after.
func (r *run) end(commit bool) {
	var clash error
	for _, l := range r.tables {
		r.checkReads("inside the transaction", l.want, l, r.txn)
		r.expectAsleep(l, "an open transaction")
		if l.unique.violatedBy(l.want) {
			clash = statedb.ErrNotUnique
		}
		l.open = false
	}
	if !commit {
		r.txn.Abort()
	} else {
		r.expect("Check before commit", errorIs(r.txn.Check(), clash))
		_, err := r.txn.Commit()
		r.expect(fmt.Sprintf("commit (error %v)", err), errorIs(err, clash))
	}
	for _, l := range r.tables {
		changed := commit && clash == nil && l.want.revision != l.before.revision
		if !changed {
			r.expectAsleep(l, "a transaction without effect")
			l.want = l.before.clone()
		}
		l.before = l.want.clone()
		r.checkReads("transaction that has ended", l.want, l, r.txn)
		r.checkReads("new snapshot", l.want, l, r.db.ReadTxn())
	}
}

// write makes one random write to a table and its model.
func (r *run) write(l *modelTable) {
	i := items().Draw(r.t, "row")
	if !l.open {
		_, _, err := l.Insert(r.txn, i)
		r.expect("insert without the lock", errorIs(err, statedb.ErrNotLocked))
		return
	}
	row, exists := l.want.rows[i.ID]
	revision := rapid.SampledFrom([]statedb.Revision{max(row.spec, 1) - 1, row.spec, row.Revision, l.want.revision + 1}).Draw(r.t, "revision")
	conflict := exists && row.spec > revision
	switch op := rapid.SampledFrom(writes).Draw(r.t, "write"); op {
	case "insert":
		refused := l.want.refusal(i)
		old, replaced, err := l.Insert(r.txn, i)
		r.expect(op, errorIs(err, refused))
		if refused == nil {
			l.want.insert(i)
			r.expect(op, replaced == exists && old == row.Item)
		}
	case "delete":
		old, deleted, err := l.Delete(r.txn, item{ID: i.ID})
		l.want.delete(i.ID)
		r.expect(op, err == nil && deleted == exists && old == row.Item)
	case "modify":
		old, err := l.Modify(r.txn, byID.Query(i.ID), func(item) item { return i })
		expected := cmp.Or(compared(exists, false), l.want.refusal(i))
		r.expect(op, errorIs(err, expected))
		if expected == nil {
			l.want.insert(i)
			r.expect(op, old == row.Item)
		}
	case "swap":
		_, err := l.CompareAndSwap(r.txn, revision, i)
		r.expect(op, errorIs(err, cmp.Or(l.want.incomplete(i), compared(exists, conflict), l.want.invalid(i))))
		if err == nil {
			l.want.insert(i)
		}
	case "swap delete":
		_, err := l.CompareAndDelete(r.txn, revision, item{ID: i.ID})
		r.expect(op, errorIs(err, compared(exists, conflict)))
		if err == nil {
			l.want.delete(i.ID)
		}
	case "insert if absent":
		existing, inserted, err := l.InsertIfAbsent(r.txn, i)
		expected := l.want.refusal(i)
		if exists {
			expected = nil
		}
		r.expect(op, errorIs(err, expected) && inserted == (!exists && expected == nil) && existing == row.Item)
		if inserted {
			l.want.insert(i)
		}
	case "amend":
		amended, err := l.Amend(r.txn, item{ID: i.ID}, revision, func(current item) item {
			r.expect("amend sees the current row", current == row.Item)
			return item{ID: "other", Group: "not taken", Status: i.Status}
		})
		r.expect(op, err == nil && amended == l.want.amend(i.ID, revision, i.Status))
	default:
		r.writeMany(op, l, i)
	}
}

var writes = []string{
	"insert", "insert", "insert", "delete", "modify", "modify by tag", "swap", "swap delete", "amend",
	"insert if absent", "delete prefix", "delete all", "delete group", "churn", "swap places",
}

// writeMany is write for operations on more than one row, or on one that is looked for.
func (r *run) writeMany(op string, l *modelTable, i item) {
	switch op {
	case "modify by tag":
		r.modifyByTag(l)
	case "delete prefix":
		r.deletePrefix(l)
	case "delete all":
		r.deleteAll(l)
	case "delete group":
		r.deleteGroup(l, i.Group)
	case "churn":
		r.churn(l, i)
	case "swap places":
		r.swapPlaces(l)
	}
}

func compared(exists, conflict bool) error {
	switch {
	case !exists:
		return statedb.ErrNotFound
	case conflict:
		return statedb.ErrConflict
	}
	return nil
}

func (r *run) modifyByTag(l *modelTable) {
	tagged := matching(modelByTag.entries(l.want), func(tag string) bool { return tag == "aa" })
	_, err := l.Modify(r.txn, byTag.Query("aa"), func(i item) item { i.Number++; i.Tags = "b b"; return i })
	var i item
	expected := compared(len(tagged) > 0, false)
	if expected == nil {
		i = tagged[0].Item
		i.Number, i.Tags = i.Number+1, "b b"
		expected = l.want.refusal(i)
	}
	r.expect("modify by tag", errorIs(err, expected))
	if expected == nil {
		l.want.insert(i)
	}
}

// deletePrefix deletes through some index, in the order of which the model does it.
func (r *run) deletePrefix(l *modelTable) {
	prefix, number := shortTexts().Draw(r.t, "prefix"), smallNumbers().Draw(r.t, "number to delete")
	c := []struct {
		query   statedb.Query[item]
		matched []modelRow
	}{
		{byID.Query(prefix), matching(modelByID.entries(l.want), func(id string) bool { return strings.HasPrefix(id, prefix) })},
		{byGroup.Query(prefix), matching(modelByGroup.entries(l.want), func(group string) bool { return strings.HasPrefix(group, prefix) })},
		{byTag.Query("a"), matching(modelByTag.entries(l.want), func(tag string) bool { return strings.HasPrefix(tag, "a") })},
		{byNumber.Query(number), matching(modelByNumber.entries(l.want), func(n int) bool { return n == number })},
	}[rapid.IntRange(0, 3).Draw(r.t, "delete by")]
	before := len(l.want.rows)
	n, err := l.DeletePrefix(r.txn, c.query)
	l.want.deleteRows(c.matched)
	r.expect("delete prefix", err == nil && n == before-len(l.want.rows))
}

func (m *model) deleteRows(rows []modelRow) {
	for _, row := range rows {
		m.delete(row.Item.ID)
	}
}

func (m model) all() []modelRow {
	return matching(modelByID.entries(m), func(string) bool { return true })
}

// deleteAll is rare, or else tables would stay small.
func (r *run) deleteAll(l *modelTable) {
	if rapid.IntRange(0, 3).Draw(r.t, "delete all if 0") != 0 {
		return
	}
	n, err := l.DeleteAll(r.txn)
	r.expect("delete all", err == nil && n == len(l.want.rows))
	l.want.deleteRows(l.want.all())
}

// deleteGroup deletes the rows of a group while it lists them.
func (r *run) deleteGroup(l *modelTable, group string) {
	for i := range l.List(r.txn, byGroup.Query(group)) {
		_, deleted, err := l.Delete(r.txn, i)
		r.expect("delete while listing", err == nil && deleted)
	}
	l.want.deleteRows(matching(modelByGroup.entries(l.want), func(g string) bool { return g == group }))
}

// churn writes and deletes a row until the window of changes is passed.
func (r *run) churn(l *modelTable, i item) {
	const times = 300
	for n := 0; n < times && l.want.refusal(i) == nil; n++ {
		_, _, inserted := l.Insert(r.txn, i)
		l.want.insert(i)
		_, _, deleted := l.Delete(r.txn, i)
		l.want.delete(i.ID)
		r.expect("churn", inserted == nil && deleted == nil)
	}
}

// swapPlaces gives the first and the last row each other's unique key.
func (r *run) swapPlaces(l *modelTable) {
	rows := l.want.all()
	if len(rows) < 2 {
		return
	}
	first, last := rows[0].Item, rows[len(rows)-1].Item
	first.Group, first.Number, last.Group, last.Number = last.Group, last.Number, first.Group, first.Number
	for _, i := range []item{first, last} {
		expected := l.want.refusal(i)
		_, _, err := l.Insert(r.txn, i)
		r.expect("swap of places", errorIs(err, expected))
		if expected == nil {
			l.want.insert(i)
		}
	}
}

func (r *run) expect(what string, ok bool) {
	r.t.Helper()
	if !ok {
		r.t.Fatalf("%s does not do as the model does", what)
	}
}

// follow opens a cursor on what is newer than a revision, which was folded
// already only if it is the newest one.
func (c *modelCursor) follow(after statedb.Revision) {
	committed := c.of.before
	if c.cursor != nil {
		if after > 0 && after < committed.revision {
			return // what was folded by then is not known any more
		}
		c.cursor.Close()
	}
	c.folded = map[string]item{}
	if after > 0 {
		for id, row := range committed.rows {
			c.folded[id] = row.Item
		}
	}
	c.cursor = c.of.Changes(after)
}

// fold takes up to limit changes; when these are all, they lead to the model.
func (r *run) fold(c *modelCursor, limit int) {
	txn := r.db.ReadTxn()
	loop := newFeedLoop(statedb.ReadOnly(c.of.RWTable), txn)
	for change := range c.cursor.Next(txn) {
		check(r.t, "feed", loop.violation(change))
		switch change.Kind {
		case statedb.Upsert:
			c.folded[change.Object.ID] = change.Object
		case statedb.Delete:
			delete(c.folded, change.Object.ID)
		case statedb.Reset:
			clear(c.folded)
		}
		if limit--; limit == 0 {
			return
		}
	}
	want := map[string]item{}
	for id, row := range c.of.before.rows {
		want[id] = row.Item
	}
	if !maps.Equal(want, c.folded) {
		r.t.Fatalf("the changes fold to %v, expected %v", c.folded, want)
	}
}

// resultWatch is a watch and the result it watches.
type resultWatch struct {
	name   string
	result func(txn statedb.ReadTxn) string
	was    string
	woken  <-chan struct{}
}

// watchSome takes every kind of watch.
func (r *run) watchSome(l *modelTable) {
	txn := r.db.ReadTxn()
	text, number := shortTexts().Draw(r.t, "watched"), smallNumbers().Draw(r.t, "watched number")
	for _, q := range []statedb.Query[item]{byID.Query(text), byGroup.Query(text), byNumber.Query(number), byPlace.Query(place{text, number}), byTag.Query("aa")} {
		_, _, got, _ := l.GetWatch(txn, q)
		l.watch("get", txn, got, func(txn statedb.ReadTxn) string {
			row, revision, ok := l.Get(txn, q)
			return fmt.Sprint(row, revision, ok)
		})
		_, listed := l.ListWatch(txn, q)
		l.watch("list", txn, listed, func(txn statedb.ReadTxn) string { return fmt.Sprint(collect(l.List(txn, q))) })
		_, prefixed := l.PrefixWatch(txn, q)
		l.watch("prefix", txn, prefixed, func(txn statedb.ReadTxn) string { return fmt.Sprint(collect(l.Prefix(txn, q))) })
		_, bounded := l.LowerBoundWatch(txn, q)
		l.watch("lower bound", txn, bounded, func(txn statedb.ReadTxn) string { return fmt.Sprint(collect(l.LowerBound(txn, q))) })
	}
	for _, ends := range [][2]statedb.Query[item]{
		{byID.Query(text), byID.Query(text + "b")},
		{byGroup.Query("a"), byGroup.Query(text)},
		{byNumber.Query(number), byNumber.Query(number + 2)},
		{byTag.Query("a"), byTag.Query("ab")},
	} {
		result := func(txn statedb.ReadTxn) rows { return l.Range(txn, ends[0], ends[1]) }
		_, ranged := l.RangeWatch(txn, ends[0], ends[1])
		l.watch("range", txn, ranged, func(txn statedb.ReadTxn) string { return fmt.Sprint(collect(result(txn))) })
	}
	_, all := l.AllWatch(txn)
	l.watch("all", txn, all, func(txn statedb.ReadTxn) string { return fmt.Sprint(collect(l.All(txn))) })
}

func (l *modelTable) watch(name string, txn statedb.ReadTxn, woken <-chan struct{}, result func(statedb.ReadTxn) string) {
	l.watches = append(l.watches, &resultWatch{name, result, result(txn), woken})
}

func (r *run) expectAsleep(l *modelTable, after string) {
	r.t.Helper()
	for _, w := range l.watches {
		r.expect("the "+w.name+" watch, still open after "+after+",", !closed(w.woken))
	}
}

// checkWatches keeps those that may stay open.
func (r *run) checkWatches(l *modelTable) {
	now := r.db.ReadTxn()
	l.watches = slices.DeleteFunc(l.watches, func(w *resultWatch) bool {
		if !closed(w.woken) {
			r.expect("the "+w.name+" watch that did not close", w.result(now) == w.was)
			return false
		}
		return true
	})
}
