package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb/internal/engine"
)

// keys draws short keys that share prefixes, hold zero bytes and are often
// prefixes of one another.
func keys() *rapid.Generator[string] {
	letters := rapid.SampledFrom([]byte{0, 1, 'a', 'b', 'c', 0xff})
	return rapid.Map(rapid.SliceOfN(letters, 0, 6), func(b []byte) string { return string(b) })
}

type version struct {
	tree engine.Tree[int]
	want model
}

// history is an engine under random transactions, and all that it has been.
type history struct {
	versions []version
	values   int // so that each insert writes another value
}

func (h *history) newest() version { return h.versions[len(h.versions)-1] }

func testModel(t *testing.T, newTree func() engine.Tree[int]) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{versions: []version{{newTree(), model{}}}}
		for range rapid.IntRange(1, 8).Draw(t, "transactions") {
			txn, want := h.write(t, rapid.IntRange(0, 25).Draw(t, "writes"))
			probes := rapid.SliceOfN(keys(), 0, 5).Draw(t, "probes")
			must(t, "inside the transaction", want.check(txn, probes...))
			if rapid.Bool().Draw(t, "commit") {
				tree := txn.Commit()
				txn.Notify()
				h.versions = append(h.versions, version{tree, want})
			}
			must(t, "newest version", h.newest().want.check(h.newest().tree, probes...))
		}
		for i, v := range h.versions {
			must(t, fmt.Sprintf("version %d", i), v.want.check(v.tree))
		}
	})
}

func must(t interface{ Fatalf(string, ...any) }, where string, err error) {
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
}

// write makes random writes in a new transaction on the newest version.
func (h *history) write(t *rapid.T, writes int) (engine.Txn[int], model) {
	base := h.newest()
	txn, want := base.tree.Txn(), maps.Clone(base.want)
	h.continues(t, txn, want, writes)
	return txn, want
}

// continues makes more of them in an open transaction.
func (h *history) continues(t *rapid.T, txn engine.Txn[int], want model, writes int) {
	for range writes {
		key := keys().Draw(t, "key")
		was, existed := want[key]
		var old int
		var ok bool
		if rapid.IntRange(0, 2).Draw(t, "delete if 0") == 0 {
			old, ok = txn.Delete([]byte(key))
			delete(want, key)
		} else {
			h.values++
			old, ok = txn.Insert([]byte(key), h.values)
			want[key] = h.values
		}
		if ok != existed || old != was {
			t.Fatalf("write to %q returned %d, %t; expected %d, %t", key, old, ok, was, existed)
		}
		if got, ok := txn.Get([]byte(key)); got != want[key] || ok != (want[key] != 0) {
			t.Fatalf("after its write %q reads as %d, %t", key, got, ok)
		}
		if txn.Len() != len(want) {
			t.Fatalf("Len inside the transaction is %d, expected %d", txn.Len(), len(want))
		}
	}
}

func testLongKeys(t *testing.T, newTree func() engine.Tree[int]) {
	long := strings.Repeat("x", 70_000)
	m := model{"": 1, "x": 2, long: 3, long + "\x00": 4, long + "y": 5, long[:65_535]: 6, long[:65_536]: 7, "y" + long: 8}
	tree := load(newTree, m)
	must(t, "loaded", m.check(tree, long[:65_537], long+"z", "\x00"))

	txn := tree.Txn()
	for _, key := range []string{long[:65_536], long, "x"} {
		txn.Delete([]byte(key))
		delete(m, key)
	}
	after := txn.Commit()
	txn.Notify()
	must(t, "after deleting", m.check(after, long, long[:65_536], "x"))
}

// testFanOut takes a node, which has a value itself, from no children to all
// that a byte can tell apart, and back, in random order.
func testFanOut(t *testing.T, newTree func() engine.Tree[int]) {
	random := rand.New(rand.NewPCG(1, 2))
	m := model{"": 1, "p": 2, "q": 3}
	txn := load(newTree, m).Txn()
	for i, b := range random.Perm(256) {
		key := "p" + string([]byte{byte(b)})
		txn.Insert([]byte(key), 10+i)
		m[key] = 10 + i
		if i%37 == 0 {
			must(t, fmt.Sprintf("with %d children", i+1), m.check(txn))
		}
	}
	tree := txn.Commit()
	txn.Notify()
	must(t, "with all children", m.check(tree))
	txn = tree.Txn()
	for i, b := range random.Perm(256) {
		key := "p" + string([]byte{byte(b)})
		txn.Delete([]byte(key))
		delete(m, key)
		if i%37 == 0 || i > 250 {
			must(t, fmt.Sprintf("with %d children left", 255-i), m.check(txn))
		}
	}
}

func testIterateWhileWriting(t *testing.T, newTree func() engine.Tree[int]) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{versions: []version{{newTree(), model{}}}}
		txn, want := h.write(t, 30)
		before := maps.Clone(want)
		prefix := rapid.SampledFrom([]string{"", "a", "b", "\x00"}).Draw(t, "prefix")
		ask, expected := txn.Prefix, before.sorted().withPrefix(prefix)
		switch rapid.IntRange(0, 3).Draw(t, "query") {
		case 1:
			ask, expected = txn.LowerBound, before.sorted().from(prefix)
		case 2:
			ask, expected = txn.PrefixReverse, reversed(before.sorted().withPrefix(prefix))
		case 3:
			ask, expected = txn.BelowReverse, before.sorted().belowReverse(prefix)
		}
		sequence := ask([]byte(prefix))
		meddled := func(yield func([]byte, int) bool) {
			for key, value := range sequence {
				if !yield(key, value) {
					return
				}
				txn.Delete(key)
				delete(want, string(key))
				other := keys().Draw(t, "other key")
				txn.Insert([]byte(other), 1_000)
				want[other] = 1_000
			}
		}
		must(t, "iterating", before.differs(meddled, expected))
		must(t, "again", before.differs(sequence, expected))
		must(t, "after the loop", want.check(txn))
	})
}

func testForks(t *testing.T, newTree func() engine.Tree[int]) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{versions: []version{{newTree(), model{}}}}
		base, baseWant := h.write(t, 20)
		tree := base.Commit()
		base.Notify()
		h.versions = append(h.versions, version{tree, baseWant})

		first, firstWant := h.write(t, 15)
		second, secondWant := h.write(t, 15)
		must(t, "first fork", firstWant.check(first))
		committed := second.Commit()
		second.Notify()
		first.Insert([]byte("a"), -1) // the fork that will be dropped goes on
		must(t, "base", baseWant.check(tree))
		must(t, "committed fork", secondWant.check(committed))
	})
}

func testParallelReaders(t *testing.T, newTree func() engine.Tree[int]) {
	m := model{}
	for i := range 300 {
		m[fmt.Sprintf("key-%d", i*7)] = i + 1
	}
	tree := load(newTree, m)
	failed := make(chan error, 4)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() { failed <- errors.Join(m.check(tree, "key-1"), watchedBy(tree)) })
	}
	newest := tree
	for i := range 200 {
		txn := newest.Txn()
		txn.Insert(fmt.Appendf(nil, "key-%d", i*13), -i)
		txn.Delete(fmt.Appendf(nil, "key-%d", i*7))
		next := txn.Commit()
		newest = next
		txn.Notify()
	}
	readers.Wait()
	for range 4 {
		must(t, "while versions were made", <-failed)
	}
}

// watchedBy asks for watches, which an engine may have to make at that moment.
func watchedBy(tree engine.Tree[int]) error {
	for key := range tree.Prefix(nil) {
		if tree.Watch(key) == nil || tree.WatchPrefix(key[:len(key)-1]) == nil {
			return fmt.Errorf("no watch for %q", key)
		}
	}
	return nil
}
