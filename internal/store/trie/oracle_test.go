package trie

import (
	"bytes"
	"testing"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
	"pgregory.net/rapid"
)

// Another implementation of ordered trees says the same about every key.
func TestTreeReadsLikeAnImmutableRadixTree(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		rapid.Check(t, func(t *rapid.T) {
			h, oracle := newHistory(leaf), iradix.New[int]()
			for range rapid.IntRange(1, 4).Draw(t, "transactions") {
				want, other := h.begin(), oracle.Txn()
				for range rapid.IntRange(0, 40).Draw(t, "writes") {
					key := []byte(keys().Draw(t, "key"))
					if rapid.IntRange(0, 2).Draw(t, "remove if 0") == 0 {
						old, removed := other.Delete(key)
						if got := h.txn.Remove(key); removed != (got != nil) || valueOf(got) != old {
							t.Fatalf("Remove(%q) is %d, expected %d", key, valueOf(got), old)
						}
						continue
					}
					h.values++
					_, replaced := other.Insert(key, h.values)
					if got := h.txn.Insert(key, leaf(key, h.values)); got != replaced {
						t.Fatalf("Insert(%q) replaced: %t", key, got)
					}
				}
				oracle = other.Commit()
				v := h.commit(want)
				compare(t, &v.tree, oracle, keys().Draw(t, "probe"))
			}
		})
	})
}

func compare(t *rapid.T, tree *Tree, oracle *iradix.Tree[int], probe string) {
	root := oracle.Root()
	probes := sortedKeys{probe}
	root.Walk(func(key []byte, _ int) bool {
		probes = append(probes, string(key))
		return false
	})
	if tree.Len() != oracle.Len() {
		t.Fatalf("Len is %d, expected %d", tree.Len(), oracle.Len())
	}
	for _, probe := range probes.around() {
		key := []byte(probe)
		value, found := root.Get(key)
		if leaf := tree.Get(key); found != (leaf != nil) || valueOf(leaf) != value {
			t.Fatalf("Get(%q) is %d, expected %d", key, valueOf(leaf), value)
		}
		it, reverse := root.Iterator(), root.ReverseIterator()
		it.SeekLowerBound(key)
		follow(t, tree.From(key), it.Next)
		it = root.Iterator()
		it.SeekPrefix(key)
		follow(t, tree.Prefix(key), it.Next)
		backward := tree.Prefix(key)
		backward.Reverse = true
		reverse.SeekPrefix(key)
		follow(t, backward, reverse.Previous)

		reverse = root.ReverseIterator()
		reverse.SeekReverseLowerBound(key)
		below := tree.Between(nil, key)
		below.Reverse = true
		follow(t, below, func() ([]byte, int, bool) {
			k, value, ok := reverse.Previous()
			if ok && bytes.Equal(k, key) { // it begins with the bound itself
				return reverse.Previous()
			}
			return k, value, ok
		})
	}
}

// follow compares a range with what next returns one after the other.
func follow(t *rapid.T, r Range, next func() ([]byte, int, bool)) {
	var s Scan
	s.Start(&r)
	for run := s.Next(); len(run) > 0; run = s.Next() {
		for _, leaf := range run {
			if key, value, ok := next(); !ok || !bytes.Equal(key, Key(leaf)) || value != valueOf(leaf) {
				t.Fatalf("a scan visits %q=%d, expected %q=%d, %t", Key(leaf), valueOf(leaf), key, value, ok)
			}
		}
	}
	if key, _, ok := next(); ok {
		t.Fatalf("a scan ends before %q", key)
	}
}
