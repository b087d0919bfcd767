// Package store is the core of package statedb: tables whose row type is known only at run
// time, so that the code is compiled once. Package statedb adds the row type, in methods of
// a line each. Its documentation of tables, transactions, watches and cursors applies here
// too.
//
// # Entries
//
// Each version of a row is an [Entry], one allocation that all indexes share:
//
//	version of a table                       entry
//	  trees[0] primary   ──► nodes ──┬────►  Leaf: header, watch
//	  trees[1] secondary ──► nodes ──┼──┐    rev, spec, dead
//	  trees[2] multi-key ──► nodes ─┐│  │    row                  at RowOffset; it ends at Size
//	  changes: the window  ─────────┼┘  └─►  secondary leaf       one for each index with one key per row
//	                                │        keys                 or a pointer to them, if they are long
//	                                └► separate leaf: header, watch, entry, key
//
// A reader finds an entry by searching a tree (package trie) and reads the row that follows
// it. Outside this package an entry is an opaque handle that gives access to the key, the
// revision, the spec revision and a pointer to the row.
//
// # Row types
//
// Each table has a [RowType]: a struct of functions, built by statedb from a schema, for
// everything that depends on the row type: allocating an entry with a copy of a row,
// comparing two rows, carrying over a status, running defaulters and validators, and
// encoding the keys of each [Index]. An index is identified by its address, so that looking
// it up costs a comparison.
//
// # Unsafe rules
//
// Rows cross the package boundary as unsafe.Pointer. The unsafe code is in entry.go here and
// in the files row.go of statedb and of reconciler; all other code only passes the pointers
// on. The rules:
//
//   - A pointer to a row that is passed to the store is valid until the call returns. It
//     may point into the caller's stack, which moves when it grows. It may be kept only in
//     arguments and local variables, where the runtime adjusts it: never in a struct on the
//     heap or in a variable that a closure captures.
//   - Rows are copied only by functions of the row type (New, Carry, …) and by reflection,
//     never byte by byte, so that the garbage collector sees every pointer in them.
//   - Each combination of a row and the room after it is a type of its own (see [Rooms]),
//     so that the collector knows where the pointers are. Keys, which are bytes, are kept
//     in parts without pointers.
//   - Pointer arithmetic stays inside one allocation. A pointer just past the end of an
//     entry would keep another object alive: see roomForKeys.
//   - Data that a reader gets from an entry is never modified. Only dead and the watch in
//     the leaf of an entry ever change, both atomically.
//
// # The life of a write
//
//  1. [DB.WriteTxn] locks its tables in a fixed order (lock.go) and records the newest
//     committed state.
//  2. [Table.Insert] (write.go) encodes the primary key, locates it once, runs the
//     defaulters, carries the status over, returns if nothing would change, resets the
//     status, and runs the validators. The user's functions may write as well, so it then
//     checks the row again.
//  3. put (put.go) creates the entry and inserts its leaves into the trees, in nodes that
//     the transaction owns. If a row gets a new key of a unique index, the key is recorded
//     as a claim.
//  4. [WriteTxn.Commit] (txn.go) checks the claims. Under publishMu each table's writer
//     makes the next version (writer.go), with the changes in the window if the table has
//     cursors (package window), and the new state becomes current with one atomic store.
//  5. The locks are released, and then the watches of replaced nodes and leaves are closed
//     (writer.announce, package trie): a goroutine that is woken can read the new state. A
//     method that returns a watch checks the newest state afterwards, so that no change is
//     missed.
//
// # Memory
//
// Memory is bounded in three places: the window keeps a limited number of replaced and
// deleted rows for cursors (recordLocked in writer.go); a table keeps one writer with
// limited scratch memory between transactions (recycle in writer.go); and only the
// snapshots that show them keep old versions.
package store
