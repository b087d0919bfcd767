package statedb

import (
	"net/netip"
	"testing"

	"github.com/statehive/statehive/statedb/index"
	"github.com/statehive/statehive/statedb/internal/engine/iradix"
)

// A length that is counted too often costs probes for nothing.
func TestLengthsInUseAreCountedExactly(t *testing.T) {
	codec := index.Prefixes()
	key := func(text string) []byte { return codec.Append(nil, netip.MustParsePrefix(text)) }
	empty := newPrefixTree(iradix.New[int]())

	txn := empty.Txn()
	for i, text := range []string{"10.0.0.0/8", "10.0.0.0/8", "11.0.0.0/8", "10.0.0.0/9", "::/0"} {
		txn.Insert(key(text), i)
	}
	txn.Insert([]byte{0}, 9) // an invalid prefix has no length
	tree := txn.Commit()
	wantLengths(t, tree, 2, 1, 1)

	aborted := tree.Txn()
	aborted.Delete(key("10.0.0.0/9"))
	wantLengths(t, aborted, 2, 0, 1)

	txn = tree.Txn()
	for _, text := range []string{"10.0.0.0/8", "10.0.0.0/8", "::/0"} {
		txn.Delete(key(text))
	}
	txn.Delete([]byte{0})
	smaller := txn.Commit()
	wantLengths(t, smaller, 1, 1, 0)
	wantLengths(t, tree, 2, 1, 1)
	wantLengths(t, empty, 0, 0, 0)
}

// wantLengths checks how many prefixes there are with lengths 8 and 9, and of IPv6.
func wantLengths(t *testing.T, tree any, eight, nine, six prefixLength) {
	t.Helper()
	lengths := tree.(interface{ inUse() *prefixLengths }).inUse()
	if lengths.ipv4[8] != eight || lengths.ipv4[9] != nine || lengths.ipv6[0] != six {
		t.Errorf("counted %d, %d and %d, expected %d, %d and %d", lengths.ipv4[8], lengths.ipv4[9], lengths.ipv6[0], eight, nine, six)
	}
}
