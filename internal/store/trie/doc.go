// Package trie provides persistent ordered trees of byte keys. It is made for many small
// transactions on many keys, with little garbage.
//
// A [Tree] is one immutable version, safe for concurrent use, also while watches are taken
// from it. A [Txn] builds the next version of a tree, and belongs to one goroutine at a
// time. Keys and entries that are in a tree must not be modified. Nothing here returns an
// error.
//
// # Entries and leaves
//
// The trees hold entries whose type they do not know: an entry is any struct that begins
// with a [Leaf], and is passed as a pointer to one of its leaves. So the code is compiled
// once for entries of all types, and a search returns the entry itself; see [Entry].
//
// A leaf records where its key is. The key of an embedded leaf, which is part of its entry,
// is in the allocation of the entry ([Leaf.SetKey]) or is external: the allocation has a
// pointer to it ([Leaf.SetExternalKey]). An entry can be in several trees, under a
// different key in each. It then has a [SecondaryLeaf] of one word for each other tree,
// which records where the key is and how far the leaf is from the beginning of the entry.
// This is an entry with two keys:
//
//	the first tree             another tree
//	  |                            |
//	  v                            v
//	[ Leaf: head, watch | ... | SecondaryLeaf | keys ]      one allocation
//
// If an entry has any number of keys in one tree, it has a separate leaf for each of them:
// an allocation of its own, with a pointer to the entry, the watch, and the bytes of the
// key or, if the key is long, a pointer to them ([NewSeparateLeaf]).
//
// # Nodes
//
// A key is read as chunks of four bits. A node records the chunk at which its keys diverge,
// and has a child for each value of that chunk that occurs, and one for a key that ends
// there. The chunks that all its keys share are skipped, not stored. The keys "a", "b" and
// "be" (61, 62 and 62 65) look like this:
//
//	node: chunk 0, slots [ 6 . . ]        the root is always there, at chunk 0
//	                       |
//	node: chunk 1, slots [ 1 2 . ]        chunk 0 is 6 in all, so they diverge at 1
//	                       |  \
//	              leaf: "a"    node: chunk 2, slots [ end 6 . ]
//	                                                   |   |
//	                                           leaf: "b"   leaf: "be"
//
// A node is one allocation: a word with the offset of the chunk and a bit for each child,
// the id of its owner, the watch, and the slots. The slot of a child is the number of bits
// that are set below its own, so absent children take no space. Nodes come in eight sizes,
// which are size classes of the allocator. One bit of the first word distinguishes leaves
// from nodes; node.go shows where each bit is.
//
// A search follows the chunks of its key and compares the whole key once, at the leaf. An
// insertion searches first, for the chunk at which the new key diverges from the present
// ones: its [Location]. The new leaf goes into the node at this chunk, or a new node is put
// there. [Txn.Locate] and [Txn.Put] allow the caller to look at the present leaf before
// replacing it, at the price of one search.
//
// # Scans
//
// A [Range] is a sequence of consecutive leaves of a version, in either direction. A [Scan]
// visits them in runs: leaves that are adjacent in one node are returned as a slice of it,
// without a call for each. It keeps its path in an array, so that it allocates nothing
// unless the tree is deep, and can be reused for another range.
//
// # Ownership
//
// Versions share nodes. A transaction takes an id that none had before, and writes it into
// the nodes that it makes: these it modifies in place. All others it copies, from the root
// down. [Txn.View] makes the transaction drop its id and take a new one for the next write,
// so that the view does not change. A node that becomes too small before anything else can
// have seen it is reused for another. A transaction that is discarded leaves nothing to
// undo.
//
// # Watches
//
// A watch is a channel that is closed when the watched result has changed. It may be closed
// although nothing has changed, but no change is missed. Each node and leaf has an atomic pointer, which is
// nil until its watch is first requested: then a channel is stored with compare-and-swap. A
// transaction lists the nodes and leaves of its base that it has replaced, and closes their
// channels in [Txn.Notify].
//
// Replaced nodes and leaves are not marked. Instead, the order of operations matters:
//
//	to commit:   publish the new version, then notify
//	to watch:    make the channel, then look at the newest version
//
// Either Notify finds the channel, or Watch finds the new version. In the new version the
// watch belongs to the same node or leaf if the result is still the same; otherwise
// [Tree.Watch] returns [Closed]. This holds for versions of any age, as a node or leaf that
// was replaced never comes back. And a goroutine that is woken can read the version that
// woke it.
//
// The watch of a key is that of its leaf. The absence of a key is watched where its
// insertion would change something: at the node that branches at the first difference
// or, if no node does, at what lies below the edge that would be divided. The watch of
// a prefix is that of the highest node whose keys all have the prefix; for fewer than
// two keys it is the watch of an absence.
//
// So the node or leaf below an edge has to wake its watchers when the edge is divided, although
// nothing below has changed. A node is replaced by a copy for this. A leaf stays: it has
// extra channels, for parts of its edge, and Notify removes and closes those that no longer
// belong to it. If such a channel is made too late, the node above shows that the edge was
// divided: it is a different one in the newest version.
//
// The embedded leaves of an entry share its watch, because they are replaced together; but
// a part of an edge belongs to one of them.
//
// # Sources
//
// Bitmaps in place of absent children are from Phil Bagwell's hash array mapped tries
// (Ideal Hash Trees, 2001). Skipping what is shared and comparing the key at the leaf, with
// bitmaps, is from Tony Finch's qp-tries (dotat.at/prog/qp). Nodes of several sizes are
// from the adaptive radix tree (Leis, Kemper and Neumann, The Adaptive Radix Tree, 2013).
// The ids of owners serve the purpose of the edit marks in Clojure's transient collections.
// What is new is the combination with watches that are made on demand, and with entries
// that are their own leaves.
package trie
