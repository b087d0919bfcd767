package trie

import (
	"testing"
	"unsafe"
)

// trees are three, which have a leaf of each entry: under its key, and under the
// same with a mark before it.
type trees struct {
	trees [3]Tree
	ids   uint64
	txn   Txn
}

func newMarked(value int, key string) *entry {
	return newEntry(value, []byte(key), []byte("0"+key), []byte("1"+key))
}

func keyIn(i int, e *entry) []byte { return Key(e.leaf(i)) }

func (s *trees) commit(i int, write func(txn *Txn)) {
	s.txn.Begin(&s.trees[i], &s.ids)
	write(&s.txn)
	s.trees[i] = s.txn.Commit()
	s.txn.Notify()
}

func (s *trees) insert(i int, e *entry) {
	s.commit(i, func(txn *Txn) { txn.Insert(keyIn(i, e), e.leaf(i)) })
}

func (s *trees) published(i int) func() Tree { return func() Tree { return s.trees[i] } }

// Leaves of one entry share its watch, but not what belongs to the way to them in
// their trees.
func TestLeavesOfAnEntryWakeOnlyWhoWatchesTheirTree(t *testing.T) {
	for name, key := range map[string]string{"short": "ab", "long": "a much longer key"} {
		t.Run(name, func(t *testing.T) {
			s := trees{trees: [3]Tree{New(), New(), New()}}
			first, second := newMarked(1, key), newMarked(2, "x")
			var beside, row []<-chan struct{}
			for i := range s.trees {
				s.insert(i, first)
				s.insert(i, second)
			}
			for i := range s.trees {
				if got := s.trees[i].Get(keyIn(i, first)); got != first.leaf(i) || Entry(got) != unsafe.Pointer(first) {
					t.Fatalf("tree %d yields %v", i, got)
				}
				beside = append(beside, s.trees[i].WatchPrefix(keyIn(i, first), s.published(i)))
				row = append(row, s.trees[i].Watch(keyIn(i, first), s.published(i)))
			}
			neighbor := newMarked(3, key+"c")
			for i := range s.trees {
				s.insert(i, neighbor)
				for j := range s.trees {
					if got := isClosed(beside[j]); got != (j <= i) {
						t.Errorf("with a neighbor in tree %d, the watch of what is beside the row in tree %d is closed: %t", i, j, got)
					}
					if isClosed(row[j]) {
						t.Errorf("a neighbor in tree %d has woken who watches the row", i)
					}
				}
			}
			for removed := 2; removed >= 0; removed-- {
				s.commit(removed, func(txn *Txn) { txn.Remove(keyIn(removed, first)) })
				for i, ch := range row {
					if !isClosed(ch) {
						t.Errorf("the row was removed from tree %d, and its watch in tree %d is open", removed, i)
					}
				}
			}
		})
	}
}

func TestSecondaryLeavesAreFarFromTheirEntry(t *testing.T) {
	type far struct {
		Leaf
		_   [MaxDistance - wordSize - unsafe.Sizeof(Leaf{})]byte
		end SecondaryLeaf
		_   [1<<distanceShift - 2*wordSize]byte
		key [3]byte
	}
	e := &far{key: [3]byte{'k', 'e', 'y'}}
	distance := unsafe.Offsetof(e.end)
	e.end.SetKey(distance, unsafe.Offsetof(e.key)-distance, 3)
	leaf := unsafe.Pointer(&e.end)
	if string(Key(leaf)) != "key" || string(e.end.Key()) != "key" || Entry(leaf) != unsafe.Pointer(e) || watchOf(leaf) != &e.watch {
		t.Errorf("the leaf has key %q, and entry %v of %v", Key(leaf), Entry(leaf), e)
	}
}

func TestNoLeafHasNoEntry(t *testing.T) {
	if Entry(nil) != nil {
		t.Error("it has")
	}
}
