package trie

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func FuzzTree(f *testing.F) { f.Fuzz(rapid.MakeFuzz(readsLikeItsModel(embeddedLeaf))) }

func TestTreeReadsLikeASortedModel(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) { rapid.Check(t, readsLikeItsModel(leaf)) })
}

// readsLikeItsModel compares all versions of a tree with what was written, inside
// transactions and after them, and has watches of all of them open.
func readsLikeItsModel(leaf maker) func(t *rapid.T) {
	return func(t *rapid.T) {
		h, ws := newHistory(leaf), &watchers{}
		for range rapid.IntRange(1, 8).Draw(t, "transactions") {
			ws.watchAny(t, h)
			want := h.write(t, rapid.IntRange(0, 25).Draw(t, "writes"))
			checkInvariants(t, h.txn.root, &h.txn)
			probes := rapid.SliceOfN(keys(), 0, 5).Draw(t, "probes")
			view := h.txn.View()
			must(t, "inside the transaction", want.check(view, probes...))
			if rapid.Bool().Draw(t, "commit") {
				must(t, "commit", ws.commit(h, want))
			} else {
				h.txn.Discard()
			}
			v := h.newest()
			must(t, "newest version", v.want.check(v.tree, probes...))
		}
		for i, v := range h.versions {
			checkInvariants(t, ref(v.tree.root), nil)
			must(t, fmt.Sprintf("version %d", i), v.want.check(v.tree))
		}
	}
}

// Versions with the same number are the same, inside transactions too, whether these are
// committed or not.
func TestVersionTellsTreesApart(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		rapid.Check(t, func(t *rapid.T) {
			h, known := newHistory(leaf), map[uint64]model{}
			note := func(tree Tree, want model) {
				if other, again := known[tree.Version()]; again && !maps.Equal(other, want) {
					t.Fatalf("version %d is of %v and of %v", tree.Version(), other, want)
				}
				known[tree.Version()] = maps.Clone(want)
			}
			note(h.newest().tree, model{})
			for range rapid.IntRange(1, 8).Draw(t, "transactions") {
				want := h.begin()
				for range rapid.IntRange(0, 3).Draw(t, "views") {
					h.continues(t, &h.txn, want, rapid.IntRange(0, 5).Draw(t, "writes"))
					note(h.txn.View(), want)
				}
				if rapid.Bool().Draw(t, "commit") {
					h.commit(want)
				} else {
					h.txn.Discard()
				}
				note(h.newest().tree, h.newest().want)
			}
			before := versionOf(h.newest())
			h.begin()
			h.txn.Remove([]byte("there is none"))
			if now := versionOf(h.commit(h.newest().want)); now != before {
				t.Errorf("version %d after %d, although nothing was written", now, before)
			}
		})
	})
}

func versionOf(v version) uint64 { return v.tree.Version() }

// A tree that does not exist has nothing in it, and nobody waits for it.
func TestZeroTreeIsEmpty(t *testing.T) {
	var tree Tree
	key := []byte("a")
	for _, kind := range queryKinds {
		for _, reverse := range []bool{false, true} {
			r := query{kind, "a", "b", reverse}.in(&tree)
			must(t, kind, model{}.differs(&Scan{}, r, nil))
		}
	}
	if tree.Len() != 0 || tree.Get(key) != nil || tree.LongestMatch([]byte{4, 10, 0, 0, 0, 8}) != nil || tree.Size() != 0 {
		t.Error("there is something in it")
	}
	tree.CloseAll()
	if !isClosed(tree.Watch(key, New)) || !isClosed(tree.WatchPrefix(nil, New)) {
		t.Error("a watch is open")
	}
	if len((&Scan{}).Next()) > 0 || len((&Scan{reverse: true}).Next()) > 0 {
		t.Error("a scan of nothing finds something")
	}
}

func TestLongKeysAreFound(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		long := strings.Repeat("x", 70_000)
		m := model{"": 1, "x": 2, long: 3, long + "\x00": 4, long + "y": 5, long[:65_535]: 6, long[:65_536]: 7, "y" + long: 8}
		h := load(leaf, m)
		must(t, "loaded", m.check(h.newest().tree, long[:65_537], long+"z", "\x00"))

		m = h.begin()
		for _, key := range []string{long[:65_536], long, "x"} {
			h.txn.Remove([]byte(key))
			delete(m, key)
		}
		must(t, "after removing", m.check(h.commit(m).tree, long, long[:65_536], "x"))
	})
}

// A node, which has a key itself, gets all children that a byte can tell apart,
// and loses them again, in random order.
func TestNodesGrowAndShrink(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		random := rand.New(rand.NewPCG(1, 2))
		h := load(leaf, model{"": 1, "p": 2, "q": 3})
		m := h.begin()
		for i, b := range random.Perm(256) {
			key := "p" + string([]byte{byte(b)})
			h.txn.Insert([]byte(key), leaf([]byte(key), 10+i))
			m[key] = 10 + i
			checkInvariants(t, h.txn.root, &h.txn)
			if i%37 == 0 {
				view := h.txn.View()
				must(t, fmt.Sprintf("with %d children", i+1), m.check(view))
			}
		}
		must(t, "with all children", m.check(h.commit(m).tree))
		m = h.begin()
		for i, b := range random.Perm(256) {
			key := "p" + string([]byte{byte(b)})
			h.txn.Remove([]byte(key))
			delete(m, key)
			checkInvariants(t, h.txn.root, &h.txn)
			if i%37 == 0 || i > 250 {
				view := h.txn.View()
				must(t, fmt.Sprintf("with %d children left", 255-i), m.check(view))
			}
		}
	})
}

// The transaction modifies what a scan of its own view is about to visit.
func TestScansStandStillWhileTheirTransactionWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(embeddedLeaf)
		want := h.write(t, 30)
		before, view := maps.Clone(want), h.txn.View()
		q := drawQuery(t)
		expected := q.of(before.sorted())
		r := q.in(&view)
		var s Scan
		s.Start(&r)
		i := 0
		for run := s.Next(); len(run) > 0; run = s.Next() {
			for _, leaf := range run {
				key := string(Key(leaf))
				if i == len(expected) || key != expected[i] || valueOf(leaf) != before[key] {
					t.Fatalf("%v visits %q=%d at place %d of %q", q, key, valueOf(leaf), i, expected)
				}
				i++
				h.txn.Remove([]byte(key))
				delete(want, key)
				h.continues(t, &h.txn, want, 1)
			}
		}
		must(t, "again", before.differs(&s, q.in(&view), expected))
		view = h.txn.View()
		must(t, "after the loop", want.check(view))
	})
}

func TestForksAreIndependent(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		rapid.Check(t, func(t *rapid.T) {
			h := newHistory(leaf)
			base := h.commit(h.write(t, 20))

			var fork Txn
			fork.Begin(&base.tree, &h.ids)
			forkWant := maps.Clone(base.want)
			h.continues(t, &fork, forkWant, 15)
			want := h.write(t, 15)
			h.continues(t, &fork, forkWant, 5)
			view := fork.View()
			must(t, "fork", forkWant.check(view))
			committed := h.commit(want)
			h.continues(t, &fork, forkWant, 5) // it will be discarded, and goes on
			must(t, "base", base.want.check(base.tree))
			must(t, "committed", committed.want.check(committed.tree))
			fork.Discard()
			h.commit(h.write(t, 10))
			must(t, "committed, later", committed.want.check(committed.tree))
		})
	})
}

// kept is what was asked for inside a transaction, and what it should be whatever
// comes after.
type kept struct {
	at    Range
	then  model
	query query
}

// Views of many moments of transactions that go on, are committed or discarded,
// stay what they were.
func TestViewsKeepTheirMomentOfATransaction(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		rapid.Check(t, func(t *rapid.T) {
			h := newHistory(leaf)
			var all []kept
			for range rapid.IntRange(1, 3).Draw(t, "transactions") {
				want := h.begin()
				for range rapid.IntRange(1, 10).Draw(t, "moments") {
					h.continues(t, &h.txn, want, rapid.IntRange(0, 6).Draw(t, "writes"))
					view, q := h.txn.View(), drawQuery(t)
					all = append(all, kept{q.in(&view), maps.Clone(want), q})
				}
				if rapid.Bool().Draw(t, "commit") {
					h.commit(want)
				} else {
					h.txn.Discard()
				}
				for i, k := range all {
					must(t, fmt.Sprintf("range %d", i), k.then.differs(&Scan{}, k.at, k.query.of(k.then.sorted())))
				}
			}
		})
	})
}

func TestOldVersionsAreReadWhileNewOnesAreMade(t *testing.T) {
	m := model{}
	for i := range 300 {
		m[fmt.Sprintf("key-%d", i*7)] = i + 1
	}
	eachKind(t, func(t *testing.T, leaf maker) {
		h := load(leaf, m)
		tree := h.newest().tree
		failed := make(chan error, 4)
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() { failed <- errors.Join(m.check(tree, "key-1"), watchedBy(tree)) })
		}
		for i := range 200 {
			want := h.begin()
			key := fmt.Appendf(nil, "key-%d", i*13)
			h.txn.Insert(key, leaf(key, -i))
			h.txn.Remove(fmt.Appendf(nil, "key-%d", i*7))
			h.commit(want)
		}
		readers.Wait()
		for range 4 {
			must(t, "while versions were made", <-failed)
		}
	})
}

// watchedBy asks for watches, which have to be made at that moment.
func watchedBy(tree Tree) error {
	same := func() Tree { return tree }
	var s Scan
	all := tree.All()
	s.Start(&all)
	for run := s.Next(); len(run) > 0; run = s.Next() {
		for _, leaf := range run {
			key := Key(leaf)
			if tree.Watch(key, same) == nil || tree.WatchPrefix(key[:len(key)-1], same) == nil {
				return fmt.Errorf("no watch for %q", key)
			}
		}
	}
	return nil
}
