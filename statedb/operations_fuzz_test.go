package statedb_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/statedb"
)

// FuzzOperationLog decodes bytes into transactions over two tables, and looks
// for a read, or a fold of the changes, that is not what a plain map says.
func FuzzOperationLog(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00abcde\x00\x41\x0d\x00"))
	f.Add([]byte{0, 1, 1, 1, 1, 1, 1, 64, 2, 2, 2, 2, 2, 2, 13, 0, 15, 1, 5, 1, 1, 1, 1, 1, 13, 1, 15, 0})
	f.Fuzz(func(t *testing.T, log []byte) {
		const longest = 600 // a byte more says nothing new
		for _, engine := range engines {
			runLog(t, &logReader{left: log[:min(len(log), longest)]}, engine)
		}
	})
}

// logReader decodes a log; what is behind its end is zero.
type logReader struct{ left []byte }

func (r *logReader) next(n int) int {
	if len(r.left) == 0 {
		return 0
	}
	b := r.left[0]
	r.left = r.left[1:]
	return int(b) % n
}

func pick[T any](r *logReader, from ...T) T { return from[r.next(len(from))] }

// texts are such that one is the prefix of another, or looks like an escape.
var texts = []string{"a", "b", "", "aa", "ab", "\x00", "a\x00", "a\x00\xff", "\xff", "a\x00b"}

func (r *logReader) item() item {
	return item{
		ID:     pick(r, texts...),
		Group:  pick(r, texts...),
		Number: pick(r, 0, 1, -1, 256, 1<<40),
		Tags:   pick(r, "", "a", "a b", "aa a aa", "ab b", "\x00 a\x00"),
		Status: r.next(3),
	}
}

// loggedTable is a table, its model, and what its changes fold to.
type loggedTable struct {
	table   statedb.RWTable[item]
	want    model // as the open transaction sees it
	before  model // as committed
	open    bool  // the transaction has the table
	unique  uniqueness
	cursors [2]*loggedCursor
}

// loggedCursor is a cursor, and what its changes fold to.
type loggedCursor struct {
	of     *loggedTable
	cursor *statedb.Cursor[item]
	folded map[string]item
}

// moment is a snapshot that is kept, and what it should be for ever.
type moment struct {
	txn  statedb.ReadTxn
	want []model
}

type logRun struct {
	*testing.T
	*logReader
	db     *statedb.DB
	tables []*loggedTable
	txn    *statedb.WriteTxn
	past   []moment
}

func runLog(t *testing.T, log *logReader, engine statedb.Option) {
	r := &logRun{T: t, logReader: log, db: statedb.New(engine)}
	r.add(itemSchema("first"), "", false)
	r.add(strictly(uniqueness("place").schema()), "place", true)
	r.keep()
	for r.begin(); len(r.left) > 0; {
		switch kind, l := r.next(24), r.tables[r.next(2)]; kind {
		case 13:
			if r.next(4) == 0 {
				r.keep()
			}
			r.end(r.next(4) > 0)
			r.begin()
		case 14:
			l.cursors[r.next(2)].follow(pick(log, 0, l.before.revision, l.before.revision/2))
		case 15:
			r.fold(l.cursors[r.next(2)], 1+r.next(8))
		case 21:
			r.checkMoment(r.past[r.next(len(r.past))])
		default:
			r.write(l, kind)
		}
	}
	r.end(true)
	for _, l := range r.tables {
		for _, f := range l.cursors {
			r.fold(f, 1<<20)
		}
	}
	for _, m := range r.past {
		r.checkMoment(m)
	}
}

// add makes a table, which also has an index of networks.
func (r *logRun) add(schema statedb.Schema[item], unique uniqueness, strict bool) {
	schema.Name = fmt.Sprint("table-", len(r.tables))
	schema.Secondary = append(schema.Secondary, byNetwork)
	l := &loggedTable{table: newTable(r, r.db, schema), unique: unique}
	statedb.SetMinWindow(l.table, 8)
	l.want = model{rows: map[string]modelRow{}, strict: strict}
	l.before = l.want.clone()
	for i := range l.cursors {
		f := &loggedCursor{of: l}
		f.follow(0)
		l.cursors[i] = f
		r.Cleanup(func() { f.cursor.Close() })
	}
	r.tables = append(r.tables, l)
}

// keep keeps the newest snapshot; more than a few say nothing new.
func (r *logRun) keep() {
	if len(r.past) == 4 {
		r.past = r.past[1:]
	}
	m := moment{txn: r.db.ReadTxn()}
	for _, l := range r.tables {
		m.want = append(m.want, l.before.clone())
	}
	r.past = append(r.past, m)
}

func (r *logRun) checkMoment(m moment) {
	for i, l := range r.tables {
		r.checkReads("old snapshot", m.want[i], l, m.txn)
	}
}

func (r *logRun) checkReads(where string, want model, l *loggedTable, txn statedb.ReadTxn) {
	r.Helper()
	check(r, where, want.check(l.table, txn, probes{texts: texts[:2], numbers: []int{0, 300}}))
	check(r, where, want.checkNetworks(l.table, txn))
}

func (r *logRun) begin() {
	first, second := r.tables[0], r.tables[1]
	opened := pick(r.logReader, r.tables, []*loggedTable{first}, []*loggedTable{second})
	metas := make([]statedb.TableMeta, len(opened))
	for i, l := range opened {
		l.open, metas[i] = true, l.table
	}
	var err error
	if r.txn, err = r.db.WriteTxn(r.Context(), metas...); err != nil {
		r.Fatal(err)
	}
}

// end commits or aborts, and compares all reads before and after.
func (r *logRun) end(commit bool) {
	var clash error
	for _, l := range r.tables {
		r.checkReads("open transaction", l.want, l, r.txn)
		if l.unique.violatedBy(l.want) {
			clash = statedb.ErrNotUnique
		}
		l.open = false
	}
	if !commit {
		r.txn.Abort()
	} else if _, err := r.txn.Commit(); !errorIs(err, clash) {
		r.Fatalf("commit: error %v, expected %v", err, clash)
	}
	for _, l := range r.tables {
		if commit && clash == nil {
			l.before = l.want.clone()
		} else {
			l.want = l.before.clone()
		}
		r.checkReads("new snapshot", l.want, l, r.db.ReadTxn())
	}
}

// write does one operation on the table and on its model.
func (r *logRun) write(l *loggedTable, kind int) {
	i := r.item()
	if !l.open {
		_, _, err := l.table.Insert(r.txn, i)
		wantError(r, err, statedb.ErrNotLocked)
		return
	}
	old, exists := l.want.rows[i.ID]
	revision := pick(r.logReader, old.Revision, old.spec, max(old.spec, 1)-1, 0)
	var err, expected error
	switch kind {
	case 5, 6:
		_, _, err = l.table.Delete(r.txn, i)
		l.want.delete(i.ID)
	case 7:
		_, err = l.table.Modify(r.txn, byID.Query(i.ID), func(item) item { return i })
		if expected = cmp.Or(compared(exists, false), l.want.refusal(i)); expected == nil {
			l.want.insert(i)
		}
	case 8:
		_, err = l.table.CompareAndSwap(r.txn, revision, i)
		expected = cmp.Or(l.want.incomplete(i), compared(exists, old.spec > revision), l.want.invalid(i))
		if expected == nil {
			l.want.insert(i)
		}
	case 9:
		_, err = l.table.CompareAndDelete(r.txn, revision, i)
		if expected = compared(exists, old.spec > revision); expected == nil {
			l.want.delete(i.ID)
		}
	case 10:
		var amended bool
		amended, err = l.table.Amend(r.txn, i, revision, func(current item) item { current.Status = i.Status; return current })
		if amended != l.want.amend(i.ID, revision, i.Status) {
			r.Fatalf("amend of %+v at %d: %t", i, revision, amended)
		}
	case 11:
		err = r.deleteGroup(l, i.Group)
	case 12:
		err = r.churn(l, i)
	case 16, 17:
		err = r.deletePrefix(l, i)
	case 18:
		err = r.deleteAll(l)
	case 19, 20:
		_, _, err = l.table.InsertIfAbsent(r.txn, i)
		if !exists {
			if expected = l.want.refusal(i); expected == nil {
				l.want.insert(i)
			}
		}
	case 22:
		r.swapPlaces(l)
	default:
		_, _, err = l.table.Insert(r.txn, i)
		if expected = l.want.refusal(i); expected == nil {
			l.want.insert(i)
		}
	}
	if !errorIs(err, expected) {
		r.Fatalf("operation %d with %+v at %d: error %v, expected %v", kind, i, revision, err, expected)
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

// deleteGroup deletes the rows of a group while it lists them.
func (r *logRun) deleteGroup(l *loggedTable, group string) error {
	for i := range l.table.List(r.txn, byGroup.Query(group)) {
		if _, _, err := l.table.Delete(r.txn, i); err != nil {
			return err
		}
	}
	for _, row := range matching(modelByGroup.entries(l.want), func(g string) bool { return g == group }) {
		l.want.delete(row.Item.ID)
	}
	return nil
}

// deletePrefix deletes the rows that an index has below a key of i.
func (r *logRun) deletePrefix(l *loggedTable, i item) error {
	starts := func(prefix string) func(string) bool {
		return func(key string) bool { return strings.HasPrefix(key, prefix) }
	}
	query, doomed := byGroup.Query(i.Group), matching(modelByGroup.entries(l.want), starts(i.Group))
	if r.next(2) == 0 {
		query, doomed = byTag.Query("a"), matching(modelByTag.entries(l.want), starts("a"))
	}
	before := len(l.want.rows)
	for _, row := range doomed {
		l.want.delete(row.Item.ID)
	}
	n, err := l.table.DeletePrefix(r.txn, query)
	if n != before-len(l.want.rows) {
		r.Fatalf("%d rows deleted by prefix, expected %d", n, before-len(l.want.rows))
	}
	return err
}

func (r *logRun) deleteAll(l *loggedTable) error {
	rows := matching(modelByID.entries(l.want), func(string) bool { return true })
	for _, row := range rows {
		l.want.delete(row.Item.ID)
	}
	n, err := l.table.DeleteAll(r.txn)
	if n != len(rows) {
		r.Fatalf("%d rows deleted, of %d", n, len(rows))
	}
	return err
}

// swapPlaces gives the first and the last row each other's unique key.
func (r *logRun) swapPlaces(l *loggedTable) {
	rows := matching(modelByID.entries(l.want), func(string) bool { return true })
	if len(rows) < 2 {
		return
	}
	first, last := rows[0].Item, rows[len(rows)-1].Item
	first.Group, first.Number, last.Group, last.Number = last.Group, last.Number, first.Group, first.Number
	for _, i := range []item{first, last} {
		expected := l.want.refusal(i)
		if _, _, err := l.table.Insert(r.txn, i); !errorIs(err, expected) {
			r.Fatalf("swap of places, with %+v: error %v, expected %v", i, err, expected)
		}
		if expected == nil {
			l.want.insert(i)
		}
	}
}

// byNetwork is made of what rows have, so that it needs no field of its own.
var byNetwork = statedb.NewPrefixIndex("network", networkOf)

func networkOf(i item) netip.Prefix {
	if i.Group == "\xff" {
		return netip.Prefix{}
	}
	addr := netip.AddrFrom4([4]byte{10, byte(i.Number), byte(len(i.Tags)), 0})
	return netip.PrefixFrom(addr, 8*(1+len(i.Group)%4)).Masked()
}

// checkNetworks compares searches by containment with what the model has.
func (m model) checkNetworks(table statedb.Table[item], txn statedb.ReadTxn) error {
	for _, text := range []string{"10.0.0.0/8", "10.1.0.0/16", "10.255.3.0/24", "10.1.1.0/32", "0.0.0.0/0", "10.0.0.0/12"} {
		asked := netip.MustParsePrefix(text)
		var outer, inner []string
		for _, row := range matching(modelByID.entries(m), func(string) bool { return true }) {
			p := networkOf(row.Item)
			if p.IsValid() && p.Bits() <= asked.Bits() && p.Contains(asked.Addr()) {
				outer = append(outer, fmt.Sprintf("%02d %q", p.Bits(), row.Item.ID))
			}
			if p.IsValid() && p.Bits() >= asked.Bits() && asked.Contains(p.Addr()) {
				inner = append(inner, fmt.Sprintf("%02d %q", p.Bits(), row.Item.ID))
			}
		}
		slices.SortStableFunc(outer, func(a, b string) int { return strings.Compare(a[:2], b[:2]) })
		if got := networksOfRows(byNetwork.Containing(txn, table, asked)); !slices.Equal(got, outer) {
			return fmt.Errorf("networks containing %v are %v, expected %v", asked, got, outer)
		}
		got := networksOfRows(byNetwork.Within(txn, table, asked))
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(inner))) {
			return fmt.Errorf("networks within %v are %v, expected %v", asked, got, inner)
		}
	}
	return nil
}

func networksOfRows(rows rows) (found []string) {
	for i := range rows {
		found = append(found, fmt.Sprintf("%02d %q", networkOf(i).Bits(), i.ID))
	}
	return found
}

// churn writes and deletes a row until the window of changes is passed.
func (r *logRun) churn(l *loggedTable, i item) error {
	const times = 300
	for n := 0; n < times && l.want.refusal(i) == nil; n++ {
		if _, _, err := l.table.Insert(r.txn, i); err != nil {
			return err
		}
		l.want.insert(i)
		if _, _, err := l.table.Delete(r.txn, i); err != nil {
			return err
		}
		l.want.delete(i.ID)
	}
	return nil
}

// follow opens a cursor on what is newer than a revision, which was folded
// already only if it is the newest one.
func (f *loggedCursor) follow(after statedb.Revision) {
	committed := f.of.before
	if f.cursor != nil {
		if after > 0 && after < committed.revision {
			return // what was folded by then is not known any more
		}
		f.cursor.Close()
	}
	f.folded = map[string]item{}
	if after > 0 {
		for id, row := range committed.rows {
			f.folded[id] = row.Item
		}
	}
	f.cursor = f.of.table.Changes(after)
}

// fold takes up to limit changes; when these are all, they lead to the model.
func (r *logRun) fold(f *loggedCursor, limit int) {
	txn := r.db.ReadTxn()
	loop := newFeedLoop(f.of.table, txn)
	for change := range f.cursor.Next(txn) {
		check(r, "feed", loop.violation(change))
		switch change.Kind {
		case statedb.Upsert:
			f.folded[change.Object.ID] = change.Object
		case statedb.Delete:
			delete(f.folded, change.Object.ID)
		case statedb.Reset:
			clear(f.folded)
		}
		if limit--; limit == 0 {
			return
		}
	}
	want := map[string]item{}
	for id, row := range f.of.before.rows {
		want[id] = row.Item
	}
	if !maps.Equal(want, f.folded) {
		r.Fatalf("the changes fold to %v, expected %v", f.folded, want)
	}
}
