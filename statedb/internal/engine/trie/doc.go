// Package trie is an engine of our own: a trie with persistent versions, made for
// many small transactions on many keys, with little garbage.
//
// Its contract is that of package engine. Versions are safe for concurrent use,
// also while others take watches from them; a transaction belongs to one
// goroutine. Nothing here can fail.
//
// # Nodes
//
// A key is a row of chunks of four bits. A node says at which chunk its keys
// part, and has a child for each value of that chunk which occurs, and one for
// the key that ends there. What all its keys share is skipped, not stored. The
// keys "a", "b" and "be" (61, 62 and 62 65) look like this:
//
//	node: chunk 0, slots [ 6 . . ]        the root is always there, at chunk 0
//	                       |
//	node: chunk 1, slots [ 1 2 . ]        chunk 0 is 6 in all, so they part at 1
//	                       |  \
//	              leaf: "a"    node: chunk 2, slots [ end 6 . ]
//	                                                   |   |
//	                                           leaf: "b"   leaf: "be"
//
// A node is one allocation: a word with the chunk's offset and a bit for each
// child, the owner's id, the watch, and the slots. The number of bits below a
// child's bit is its place among the slots, so absent children take no room; and
// nodes come in eight sizes, which are those of the allocator. A leaf is one
// allocation too: a word with the key's length, the watch, the value and the
// bytes of the key (of a long one only a pointer to them). One bit of the first
// word tells leaf from node; where each bit is says node.go.
//
// A value may also be its own leaf, see [NewHolding]: then there is one allocation
// for both, and a search ends at the value. It may be its own leaf in several trees
// ([NewFurther]), under another key in each. Then it has a [Head] for each further
// tree, of one word, which says where the key is and how far before the head the
// value begins. This is a row with a primary and a secondary key:
//
//	the first tree           a further tree
//	  |                            |
//	  v                            v
//	[ Leaf: head, watch | value | Head | keys ]      one allocation
//
// A search follows the chunks of its key and compares the whole key once, at the
// leaf. An insertion does this first, to learn at which chunk the new key parts
// from those that are there: the new leaf goes into the node at this chunk, or
// a node is put there.
//
// # Ownership
//
// Versions share nodes. A transaction takes an id that nobody had before, and
// writes it into the nodes that it makes: these it changes in place. All others
// it copies, from the root down. When it hands out a sequence it forgets its id
// and takes a new one for the next write, so what the sequence stands on remains
// as it is. A node that becomes too small before anybody else can have seen it is
// used again for another. Aborted transactions need no clean-up.
//
// # Watches
//
// Each node and leaf has an atomic pointer: empty, until somebody asks for its
// watch and puts a channel there with compare-and-swap. A transaction keeps a
// list of the nodes and leaves of its base that it replaced. Notify, after its
// commit, swaps a mark into each, and closes the channel that it finds; who comes
// later, with an old version, finds the mark, whose channel is closed already.
//
// The watch of a key is that of its leaf. The absence of a key is watched where
// its insertion would change something: at the node which branches at the first
// difference, or, when no node does, at what lies below the edge that would be
// divided. The watch of a prefix is that of the highest node whose keys all have
// the prefix; for less than two keys it is the watch of an absence.
//
// So what lies below an edge has to give notice when the edge is divided,
// although nothing below has changed. A node is replaced by a copy for this. A
// leaf stays: it has more channels, for parts of its edge, and Notify
// takes out and closes those which are no longer its own. Who asks for
// one with an old version, too late, finds the mark in the node above.
//
// The leaves of one value share its watch, because they are replaced together; a
// part of an edge belongs to one of them.
//
// # Sources
//
// Bitmaps in place of absent children are from Phil Bagwell's hash array mapped
// tries (Ideal Hash Trees, 2001). Skipping what is shared and comparing the key
// at the leaf, with bitmaps, are Tony Finch's qp-tries (dotat.at/prog/qp).
// Nodes of several sizes are from the adaptive radix tree (Leis, Kemper and
// Neumann, The Adaptive Radix Tree, 2013). The ids of owners do what the edit marks of
// Clojure's transient collections do. What is ours is these together with watches
// that are made when they are asked for, and leaves that are values.
package trie
