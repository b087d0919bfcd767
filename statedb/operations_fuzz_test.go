package statedb_test

import (
	"fmt"
	"iter"
	"slices"
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
		runLog(t, &logReader{left: log[:min(len(log), longest)]})
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
	table  statedb.RWTable[item]
	want   model // as the open transaction sees it
	before model // as committed
	open   bool  // the transaction has the table
	cursor *statedb.Cursor[item]
	folded map[string]item
}

type logRun struct {
	*testing.T
	*logReader
	db     *statedb.DB
	tables []*loggedTable
	txn    *statedb.WriteTxn
}

func runLog(t *testing.T, log *logReader) {
	r := &logRun{T: t, logReader: log, db: statedb.New()}
	for _, name := range []string{"first", "second"} {
		table := newTable(t, r.db, itemSchema(name))
		statedb.SetMinWindow(table, 8)
		l := &loggedTable{table: table, want: model{rows: map[string]modelRow{}}}
		l.before = l.want.clone()
		l.follow(0)
		t.Cleanup(func() { l.cursor.Close() })
		r.tables = append(r.tables, l)
	}
	past, was := r.db.ReadTxn(), []model{{}, {}}
	for r.begin(); len(r.left) > 0; {
		switch kind, l := r.next(16), r.tables[r.next(2)]; kind {
		case 13:
			if r.next(4) == 0 {
				past, was = r.db.ReadTxn(), []model{r.tables[0].before.clone(), r.tables[1].before.clone()}
			}
			r.end(r.next(4) > 0)
			r.begin()
		case 14:
			l.follow(pick(log, 0, l.before.revision, l.before.revision/2))
		case 15:
			r.fold(l, 1+r.next(8))
		default:
			r.write(l, kind)
		}
	}
	r.end(true)
	for i, l := range r.tables {
		r.fold(l, 1<<20)
		check(t, "old snapshot", was[i].check(l.table, past, probes{texts: texts[:1], numbers: []int{0}}))
	}
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
	p := probes{texts: texts[:3], numbers: []int{0, 300}}
	for _, l := range r.tables {
		check(r, "open transaction", l.want.check(l.table, r.txn, p))
		if commit {
			l.before = l.want.clone()
		} else {
			l.want = l.before.clone()
		}
		l.open = false
	}
	if !commit {
		r.txn.Abort()
	} else if _, err := r.txn.Commit(); err != nil {
		r.Fatal(err)
	}
	for _, l := range r.tables {
		check(r, "new snapshot", l.want.check(l.table, r.db.ReadTxn(), p))
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
		expected = compared(exists, false)
		if exists {
			l.want.insert(i)
		}
	case 8:
		_, err = l.table.CompareAndSwap(r.txn, revision, i)
		if expected = compared(exists, old.spec > revision); expected == nil {
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
	default:
		_, _, err = l.table.Insert(r.txn, i)
		l.want.insert(i)
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

// churn writes and deletes a row until the window of changes is passed.
func (r *logRun) churn(l *loggedTable, i item) error {
	const times = 300
	for range times {
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
func (l *loggedTable) follow(after statedb.Revision) {
	if l.cursor != nil {
		if after > 0 && after < l.before.revision {
			return // what was folded by then is not known any more
		}
		l.cursor.Close()
	}
	l.folded = map[string]item{}
	if after > 0 {
		for id, row := range l.before.rows {
			l.folded[id] = row.Item
		}
	}
	l.cursor = l.table.Changes(after)
}

// fold takes up to limit changes; when these are all, they lead to the model.
func (r *logRun) fold(l *loggedTable, limit int) {
	if err := l.foldSome(l.cursor.Next(r.db.ReadTxn()), limit); err != nil {
		r.Fatal(err)
	}
}

func (l *loggedTable) foldSome(changes iter.Seq[statedb.Change[item]], limit int) error {
	for change := range changes {
		switch change.Kind {
		case statedb.Upsert:
			l.folded[change.Object.ID] = change.Object
		case statedb.Delete:
			delete(l.folded, change.Object.ID)
		case statedb.Reset:
			clear(l.folded)
		}
		if limit--; limit == 0 {
			return nil
		}
	}
	ids := make([]string, 0, len(l.folded))
	for id, i := range l.folded {
		if l.before.rows[id].Item != i {
			return fmt.Errorf("the changes fold to %+v, expected %+v", i, l.before.rows[id].Item)
		}
		ids = append(ids, id)
	}
	if len(ids) != len(l.before.rows) {
		slices.Sort(ids)
		return fmt.Errorf("the changes fold to the rows %q, expected %d of them", ids, len(l.before.rows))
	}
	return nil
}
