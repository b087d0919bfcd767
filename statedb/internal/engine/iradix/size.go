package iradix

import "github.com/statehive/statehive/statedb/internal/memsize"

// What a tree is made of.
const (
	watchSize = 112     // a channel
	nodeSize  = 64 + 20 // with its place in the node above, and room for growth there
	leafSize  = 48      // beside its node
	perNode   = nodeSize + watchSize
	perKey    = perNode + leafSize + watchSize
)

// Size is computed from the shape of the tree, which follows from the keys: a
// node for each, and for each place where keys part.
func (t tree[V]) Size() (own, keys int) {
	own = perNode // the root
	var last []byte
	var forks []int // depths of the nodes above last, where keys part
	for key := range t.Prefix(nil) {
		own += perKey
		keys += memsize.Alloc(len(key))
		depth := common(last, key)
		for len(forks) > 0 && forks[len(forks)-1] > depth {
			forks = forks[:len(forks)-1]
		}
		if depth > 0 && (len(forks) == 0 || forks[len(forks)-1] < depth) {
			forks = append(forks, depth)
			if depth < len(last) { // else it is the node of last itself
				own += perNode
			}
		}
		last = key
	}
	return own, keys
}

// common is the length of the longest common prefix.
func common(a, b []byte) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
