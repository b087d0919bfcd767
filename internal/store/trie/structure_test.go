package trie

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// violation returns what is wrong with the structure below p, whose keys begin
// with those chunks of sample that come before offset, and how many they are.
func violation(p ref, isRoot bool, offset uint64, sample []byte) (count int, err error) {
	head := headOf(p)
	if !isNode(head) {
		if d := difference(leafKey(p), sample); d < offset {
			return 0, fmt.Errorf("key %q differs from %q at chunk %d, above its node at %d", leafKey(p), sample, d, offset)
		}
		return 1, nil
	}
	n := (*node)(p)
	switch {
	case isRoot && n.offset() != 0:
		return 0, fmt.Errorf("the root branches at %d", n.offset())
	case !isRoot && n.count() < 2:
		return 0, fmt.Errorf("%d children at chunk %d", n.count(), n.offset())
	case !isRoot && n.offset() < offset:
		return 0, fmt.Errorf("chunk %d below chunk %d", n.offset(), offset-1)
	case n.offset()%2 == 1 && n.head&ended != 0:
		return 0, fmt.Errorf("a key ends inside its byte, at chunk %d", n.offset())
	}
	for i := n.count(); i < n.slots(); i++ {
		if n.child(i) != nil {
			return 0, fmt.Errorf("a child in slot %d, which is free", i)
		}
	}
	return childViolation(n)
}

func childViolation(n *node) (count int, err error) {
	place := 0
	for s := uint64(ended); s&symbolMask != 0; s <<= 1 {
		if n.head&s == 0 {
			continue
		}
		child := n.child(place)
		key := anyKey(child)
		if symbol(key, n.offset()) != s {
			return 0, fmt.Errorf("child %d at chunk %d has key %q", place, n.offset(), key)
		}
		below, err := violation(child, false, n.offset()+1, key)
		if err != nil {
			return 0, err
		}
		if d := difference(key, anyKey(ref(n))); d < n.offset() {
			return 0, fmt.Errorf("children of chunk %d part at %d", n.offset(), d)
		}
		count += below
		place++
	}
	return count, nil
}

// checkInvariants checks the structure below a root, and of a transaction that all nodes
// above those that it may modify are such nodes too.
func checkInvariants(t interface{ Fatal(args ...any) }, root ref, x *Txn) {
	count, err := violation(root, true, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x == nil {
		return
	}
	if count != x.size {
		t.Fatal(fmt.Sprintf("%d keys, expected %d", count, x.size))
	}
	if x.id != 0 && parted(root, x.id, true) {
		t.Fatal("a node can be modified, and one above it cannot")
	}
	for i, n := range x.spare {
		if n != nil && (n.slots()/2 != i || n.count() != 0 || n.offset() != 0 || n.watch.signal.Load() != nil) {
			t.Fatal(fmt.Sprintf("a node is to be used again, and is not as new: %+v", n))
		}
	}
}

// parted reports whether there is a node of this owner below one that is not.
func parted(p ref, id uint64, aboveOwned bool) bool {
	if !isNode(headOf(p)) {
		return false
	}
	n := (*node)(p)
	owned := n.owner == id
	return owned && !aboveOwned || slices.ContainsFunc(n.children(), func(child ref) bool { return parted(child, id, owned) })
}

func TestStructureHoldsAfterEveryWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(embeddedLeaf)
		letters := rapid.SampledFrom([]byte{0, 1, 0x10, 'a', 'b', 0xff})
		for range rapid.IntRange(1, 4).Draw(t, "transactions") {
			want := h.begin()
			for range rapid.IntRange(0, 30).Draw(t, "writes") {
				key := rapid.SliceOfN(letters, 0, 5).Draw(t, "key")
				switch rapid.IntRange(0, 6).Draw(t, "kind") {
				case 0, 1:
					h.txn.Remove(key)
				case 2:
					view := h.txn.View()
					if view.top != topOf(view.root) {
						t.Fatal("searches begin elsewhere")
					}
				default:
					h.txn.Insert(key, embeddedLeaf(key, 1))
				}
				checkInvariants(t, h.txn.root, &h.txn)
			}
			if rapid.Bool().Draw(t, "commit") {
				h.commit(want)
			} else {
				h.txn.Discard()
			}
			checkInvariants(t, ref(h.newest().tree.root), nil)
		}
	})
}

func TestNodesHaveRoomForTheirSlots(t *testing.T) {
	for slots := minSlots; slots <= symbols; slots += 2 {
		n := allocate(slots)
		if n.slots() != slots || n.count() != 0 || slotsFor(slots) != slots || slotsFor(slots-1) != slots {
			t.Errorf("a node for %d children has %d slots, for one fewer %d", slots, n.slots(), slotsFor(slots-1))
		}
		for i := range slots {
			n.insert(1<<i, ref(n)) // checkptr finds what is outside
		}
		n.reset()
	}
	if got := unsafe.Sizeof(node17{}); got != 160 {
		t.Errorf("the largest node has %d bytes", got)
	}
}

// The bytes of short keys are copied into the leaf.
func TestKeysOfAllLengthsAreKept(t *testing.T) {
	const maxOwnKey = 104
	h := newHistory(separate)
	h.begin()
	for n := range 300 {
		key := bytes.Repeat([]byte{byte(n)}, n)
		h.txn.Insert(key, separate(key, n))
		if n <= maxOwnKey {
			clear(key)
		}
	}
	for n := range 300 {
		key := bytes.Repeat([]byte{byte(n)}, n)
		leaf := h.txn.Get(key)
		if leaf == nil || valueOf(leaf) != n || SeparateEntry(leaf) != Entry(leaf) {
			t.Errorf("the value of %d bytes is %d", n, valueOf(leaf))
		}
	}
	h.txn.Discard()
}
