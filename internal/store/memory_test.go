package store

import (
	"strings"
	"testing"
)

// A transaction leaves the next one its memory, even if it changes nothing, but not
// more than a bounded part of it.
func TestTheMemoryOfWritersIsKeptAndBounded(t *testing.T) {
	table := newTestTable(t, checkedRows())
	for _, c := range []struct{ from, rows, least int }{
		{0, 1_000, 1_000},
		{0, 1_000, 1_000}, // all is there already
		{1_000, 1_000, 1_000},
		{2_000, 10 * maxSpare, 0},
		{0, 1, 0},
	} {
		rows := make([]checked, c.rows)
		for i := range rows {
			id := strings.Repeat("k", (c.from+i)%17) + string(rune(c.from+i))
			rows[i] = checked{ID: id, Tags: "a b", Number: c.from + i}
		}
		update(t, table, inserting(t, table, rows...))
		w := table.spare.Load()
		if w == nil {
			t.Fatal("no writer is left to the next transaction")
		}
		if spare := cap(w.log); spare < c.least || spare > maxSpare {
			t.Errorf("room for %d changes is left after %d", spare, c.rows)
		}
		if spare := cap(w.claims); spare > maxSpare {
			t.Errorf("room for %d claims is left after %d rows", spare, c.rows)
		}
	}
}

// A row with large keys leaves no large memory behind, nor do keys of rows before.
func TestLargeKeysAreNotKeptBetweenTransactions(t *testing.T) {
	const large = 1 << 20
	table := newTestTable(t, checkedRows())
	text := strings.Repeat("k", large)
	update(t, table, inserting(t, table,
		checked{ID: text, Group: text, Tags: text + " " + text + "a " + text + "b", Number: 1},
		checked{ID: "b", Number: 2}))
	w := table.spare.Load()
	if n := cap(w.lookup) + cap(w.encoded) + cap(w.scratch.Bytes); n >= large/16 {
		t.Errorf("%d bytes are kept for keys", n)
	}
	for _, k := range w.keys[:cap(w.keys)] {
		if k.key != nil {
			t.Errorf("a key of %d bytes is kept", len(k.key))
		}
	}
	for _, c := range w.log[:cap(w.log)] {
		if c != (change{}) {
			t.Error("an entry is kept")
		}
	}
}
