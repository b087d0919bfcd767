package statedb_test

import (
	"fmt"
	"iter"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/statehive/statehive/statedb"
)

// Rows reach the store as pointers into the stack of the caller, which moves when it
// grows or shrinks. These tests make it do so in every function of the caller that the
// store calls, and then have others write to where it was.

// wide is a row that is too large for registers, with pointers.
type wide struct {
	ID      uint64
	Group   string
	Pad     [20]uint64
	Tags    []string
	Number  *int
	Network netip.Prefix
	Status  int
}

func newWide(id uint64, group string) wide {
	w := wide{ID: id, Group: group, Tags: []string{group, fmt.Sprint("tag-", id)}, Number: new(int)}
	for i := range w.Pad {
		w.Pad[i] = id<<8 + uint64(i)
	}
	*w.Number = int(id)
	w.Network = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(id), 0, 0}), 16)
	return w
}

// mover moves the stack of the goroutine that runs a step.
type mover struct {
	t     *testing.T
	depth int
	calls map[string]int
}

// intact moves the stack and checks a row before and after that.
func (m *mover) intact(callback string, w wide) {
	m.check(callback, &w)
	m.move(callback)
	m.check(callback, &w)
}

func (m *mover) check(callback string, w *wide) {
	want := newWide(w.ID, w.Group)
	if w.Pad != want.Pad || !slices.Equal(w.Tags, want.Tags) || *w.Number != *want.Number || w.Network != want.Network {
		m.t.Errorf("%s: the row %d of group %q is %+v", callback, w.ID, w.Group, *w)
	}
}

// move moves the stack: each time it needs more than ever before.
func (m *mover) move(callback string) {
	m.calls[callback]++
	var here byte
	before := uintptr(unsafe.Pointer(&here))
	const most = 1 << 10
	if m.depth = 2*m.depth + 1; m.depth < most {
		deep(m.depth)
	} else {
		m.depth = 0
		runtime.GC() // which shrinks it
	}
	if after := uintptr(unsafe.Pointer(&here)); before != after {
		m.calls["moved"]++
	}
	scribble()
}

// deep needs more than a kilobyte of stack per level.
//
//go:noinline
func deep(levels int) (sum byte) {
	var pad [1 << 10]byte
	for i := range pad {
		pad[i] = 0xdb
	}
	if levels > 0 {
		pad[levels%len(pad)] = deep(levels - 1)
	}
	return pad[(levels+1)%len(pad)]
}

// scribble has other goroutines use the memory of stacks that were given up.
func scribble() {
	var all sync.WaitGroup
	for _, levels := range []int{0, 1, 4, 12, 25, 60} {
		all.Go(func() { deep(levels) })
	}
	all.Wait()
}

// step runs fn on a stack of its own.
func (m *mover) step(fn func()) {
	m.depth = 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}

// moving is a database whose functions all move the stack.
type moving[Obj any] struct {
	*mover
	db        *statedb.DB
	table     *statedb.RWTable[Obj]
	obj       func(wide) Obj
	wide      func(Obj) wide
	byID      statedb.Index[Obj, uint64]
	byGroup   statedb.Index[Obj, string]
	byTag     statedb.Index[Obj, string]
	byNetwork statedb.PrefixIndex[Obj]
}

func newMoving[Obj any](t *testing.T, obj func(wide) Obj, row func(Obj) wide) *moving[Obj] {
	m := &moving[Obj]{mover: &mover{t: t, calls: map[string]int{}}, db: newDB(), obj: obj, wide: row}
	seen := func(callback string, o Obj) wide {
		w := row(o)
		m.intact(callback, w)
		return w
	}
	m.byID = statedb.NewIndex("id", func(o Obj) uint64 { return seen("primary key", o).ID })
	m.byGroup = statedb.NewIndex("group", func(o Obj) string { return seen("key", o).Group })
	m.byTag = statedb.NewMultiIndex("tag", func(o Obj) iter.Seq[string] {
		w := seen("keys", o)
		return func(yield func(string) bool) {
			for _, tag := range w.Tags {
				m.intact("sequence of keys", w)
				if !yield(tag) {
					return
				}
			}
		}
	})
	m.byNetwork = statedb.NewPrefixIndex("network", func(o Obj) netip.Prefix { return seen("network", o).Network })
	m.table = newTable(t, m.db, statedb.Schema[Obj]{
		Name: "moving", Primary: m.byID, Secondary: []statedb.Indexer[Obj]{m.byGroup, m.byTag, m.byNetwork.Unique()},
		Equal: func(a, b Obj) bool {
			seen("Equal, old", a)
			return seen("Equal", b).Group == row(a).Group && row(a).Status == row(b).Status
		},
		Defaulters: []func(statedb.ReadTxn, Obj) (Obj, error){
			func(_ statedb.ReadTxn, o Obj) (Obj, error) { return obj(seen("defaulter", o)), nil },
			func(txn statedb.ReadTxn, o Obj) (Obj, error) {
				m.table.Get(txn, m.byID.Query(1))
				return obj(seen("second defaulter", o)), nil
			},
		},
		Validators: []func(statedb.ReadTxn, statedb.Proposal[Obj]) error{func(_ statedb.ReadTxn, p statedb.Proposal[Obj]) error {
			seen("validator", p.Object)
			if p.Replaces {
				seen("validator, old", p.Old)
			}
			return nil
		}},
		Amend: statedb.Amend[Obj]{
			Carry: func(from, to Obj) Obj {
				w := seen("Carry", to)
				w.Status = seen("Carry, from", from).Status
				return obj(w)
			},
			Reset: func(o Obj) Obj {
				w := seen("Reset", o)
				w.Status = 0
				return obj(w)
			},
		},
		Columns: []statedb.Column[Obj]{{Name: "ID", Cell: func(o Obj) string { return fmt.Sprint(seen("cell", o).ID) }}},
	})
	return m
}

// write runs a write on a stack of its own.
func (m *moving[Obj]) write(fn func(txn *statedb.WriteTxn) error) {
	m.t.Helper()
	m.step(func() {
		if err := m.db.Update(m.t.Context(), fn, m.table); err != nil {
			m.t.Error(err)
		}
	})
}

// want checks the stored row.
func (m *moving[Obj]) want(after string, id uint64, group string, status int) {
	m.t.Helper()
	o, _, ok := m.table.Get(m.db.ReadTxn(), m.byID.Query(id))
	if !ok {
		m.t.Fatalf("after %s the row %d is not there", after, id)
	}
	w := m.wide(o)
	m.check(after, &w)
	if w.ID != id || w.Group != group || w.Status != status {
		m.t.Errorf("after %s the row %d is %+v", after, id, w)
	}
}

func (m *moving[Obj]) writes() {
	// No closure has the row, which is thus on the stack.
	m.write(func(txn *statedb.WriteTxn) error {
		_, _, err := m.table.Insert(txn, m.obj(newWide(1, "a")))
		return err
	})
	m.want("Insert", 1, "a", 0)
	m.write(func(txn *statedb.WriteTxn) error {
		_, inserted, err := m.table.InsertIfAbsent(txn, m.obj(newWide(2, "a")))
		m.expect("InsertIfAbsent", inserted)
		return err
	})
	m.want("InsertIfAbsent", 2, "a", 0)
	m.write(func(txn *statedb.WriteTxn) error {
		amended, err := m.table.Amend(txn, m.obj(newWide(1, "")), 1, func(o Obj) Obj {
			w := m.wide(o)
			m.intact("Amend", w)
			w.Status = 5
			return m.obj(w)
		})
		m.expect("Amend", amended)
		return err
	})
	m.want("Amend", 1, "a", 5)
	m.write(func(txn *statedb.WriteTxn) error {
		old, replaced, err := m.table.Insert(txn, m.obj(newWide(1, "b")))
		m.expect("Insert", replaced && m.wide(old).Group == "a")
		return err
	})
	m.want("a second Insert", 1, "b", 0)
	m.write(func(txn *statedb.WriteTxn) error {
		_, err := m.table.Modify(txn, m.byTag.Query("tag-1"), func(o Obj) Obj {
			m.intact("Modify", m.wide(o))
			return m.obj(newWide(1, "c"))
		})
		return err
	})
	m.want("Modify", 1, "c", 0)
	m.write(func(txn *statedb.WriteTxn) error {
		old, err := m.table.CompareAndSwap(txn, 5, m.obj(newWide(1, "d")))
		m.expect("CompareAndSwap", m.wide(old).Group == "c")
		return err
	})
	m.want("CompareAndSwap", 1, "d", 0)
	m.write(func(txn *statedb.WriteTxn) error {
		_, err := m.table.CompareAndDelete(txn, 9, m.obj(newWide(2, "x")))
		return err
	})
	m.write(func(txn *statedb.WriteTxn) error {
		_, _, err := m.table.Insert(txn, m.obj(newWide(3, "a")))
		m.expect("an insert", err == nil)
		old, deleted, err := m.table.Delete(txn, m.obj(newWide(3, "y")))
		m.expect("Delete", deleted && m.wide(old).Group == "a")
		return err
	})
	m.expect("the number of rows", m.table.Len(m.db.ReadTxn()) == 1)
}

func (m *moving[Obj]) expect(what string, ok bool) {
	m.t.Helper()
	if !ok {
		m.t.Errorf("%s is wrong", what)
	}
}

func (m *moving[Obj]) reads() {
	const many = 40
	m.write(func(txn *statedb.WriteTxn) error {
		for id := range uint64(many) {
			if _, _, err := m.table.Insert(txn, m.obj(newWide(id, "many"))); err != nil {
				return err
			}
		}
		return nil
	})
	txn := m.db.ReadTxn()
	all, network := m.byGroup.Query("many"), netip.MustParsePrefix("10.0.0.0/8")
	for name, sequence := range map[string]iter.Seq2[Obj, statedb.Revision]{
		"All":        m.table.All(txn),
		"in reverse": m.table.All(txn, statedb.WithReverse()),
		"List":       m.table.List(txn, all),
		"separate":   m.table.List(txn, m.byTag.Query("many")),
		"Prefix":     m.table.Prefix(txn, m.byGroup.Query("man")),
		"LowerBound": m.table.LowerBound(txn, m.byID.Query(0)),
		"Range":      m.table.Range(txn, m.byID.Query(0), m.byID.Query(many)),
		"Within":     m.byNetwork.Within(txn, statedb.ReadOnly(m.table), network),
	} {
		m.step(func() {
			n := 0
			for o, revision := range sequence {
				m.intact(name, m.wide(o))
				if _, got, ok := m.table.Get(txn, m.byID.Query(m.wide(o).ID)); !ok || got != revision {
					m.t.Errorf("%s yields %d of revision %d, which is %d", name, m.wide(o).ID, revision, got)
				}
				n++
			}
			m.expect(fmt.Sprintf("the number of rows of %s, %d,", name, n), n == many)
		})
	}
	m.step(func() {
		cursor := m.table.Changes(0)
		defer cursor.Close()
		n := 0
		for change := range cursor.Next(txn) {
			m.intact("cursor", m.wide(change.Object))
			n++
		}
		m.expect("the number of changes", n == many)
	})
	m.step(func() {
		row := m.obj(newWide(7, "many"))
		m.expect("Key", m.table.Key(row) == "7")
		m.expect("Matches", m.table.Matches(m.byTag.Query("tag-7"), row))
		m.expect("KeyQuery", m.table.KeyQuery(row).Encoded() == m.byID.Query(7).Encoded())
	})
	m.step(func() {
		table, err := m.db.Table(txn, "moving")
		m.expect("the table by name", err == nil)
		row, ok, err := table.Get(txn, "7")
		m.expect("the row by name", ok && err == nil && row.Cells[0] == "7")
	})
}

// failures has errors made, for which the texts of keys are asked of rows.
func (m *moving[Obj]) failures() {
	m.step(func() {
		err := m.db.Update(m.t.Context(), func(txn *statedb.WriteTxn) error {
			_, err := m.table.CompareAndSwap(txn, 1, m.obj(newWide(7, "z")))
			wantError(m.t, err, statedb.ErrConflict)
			_, err = m.table.Modify(txn, m.byID.Query(7), func(Obj) Obj { return m.obj(newWide(99, "z")) })
			wantError(m.t, err, statedb.ErrKeyChanged)
			const sameNetwork = 7 + 1<<8
			_, _, err = m.table.Insert(txn, m.obj(newWide(sameNetwork, "clash")))
			return err
		}, m.table)
		wantError(m.t, err, statedb.ErrNotUnique)
	})
}

func testStacks[Obj any](t *testing.T, obj func(wide) Obj, row func(Obj) wide) {
	m := newMoving(t, obj, row)
	m.writes()
	m.reads()
	m.failures()
	if m.calls["moved"] < 100 {
		t.Errorf("the stack moved %d times", m.calls["moved"])
	}
	for _, callback := range []string{
		"primary key", "key", "keys", "sequence of keys", "network", "Equal", "Equal, old", "defaulter", "second defaulter",
		"validator", "validator, old", "Carry", "Carry, from", "Reset", "cell", "Modify", "Amend", "All", "Within", "cursor",
	} {
		if m.calls[callback] == 0 {
			t.Errorf("%s was never called", callback)
		}
	}
}

func TestRowsSurviveThatTheStackMoves(t *testing.T) {
	t.Run("by value", func(t *testing.T) {
		testStacks(t, func(w wide) wide { return w }, func(w wide) wide { return w })
	})
	t.Run("by pointer", func(t *testing.T) {
		testStacks(t, func(w wide) *wide { return &w }, func(w *wide) wide { return *w })
	})
}

// referring is a row that refers to memory which the compiler would keep in the stack of
// the writer if it could.
type referring struct {
	ID     string
	Tags   []string
	Number *int
}

// TestWhatARowRefersToIsNotKeptInTheStack writes rows from a stack that others use afterwards.
func TestWhatARowRefersToIsNotKeptInTheStack(t *testing.T) {
	db := newDB()
	byID := statedb.NewIndex("id", func(r referring) string { return r.ID })
	table := newTable(t, db, statedb.Schema[referring]{Name: "rows", Primary: byID})
	var keys []string
	write := func(id byte, fn func(*statedb.WriteTxn, referring) error) {
		m := &mover{t: t, calls: map[string]int{}}
		m.step(func() {
			check(t, "write", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				number, name := int(id), [...]byte{'r', 'o', 'w', id}
				keys = append(keys, table.Key(referring{ID: string(name[:])}))
				return fn(txn, referring{ID: string(name[:]), Tags: []string{"a", "b"}, Number: &number})
			}, table))
			m.move("write")
		})
	}
	write('1', func(txn *statedb.WriteTxn, r referring) error { _, _, err := table.Insert(txn, r); return err })
	write('2', func(txn *statedb.WriteTxn, r referring) error { _, _, err := table.InsertIfAbsent(txn, r); return err })
	write('1', func(txn *statedb.WriteTxn, r referring) error {
		_, err := table.CompareAndSwap(txn, table.Revision(txn), r)
		return err
	})
	scribble()
	for i, id := range []byte{'1', '2'} {
		name := "row" + string(id)
		r, _, ok := table.Get(db.ReadTxn(), byID.Query(name))
		if !ok || r.ID != name || !slices.Equal(r.Tags, []string{"a", "b"}) || *r.Number != int(id) || keys[i] != name {
			t.Errorf("%s: %+v, %t, key %q", name, r, ok, keys[i])
		}
	}
}
