// Package statedb is an in-memory database of typed tables with snapshots,
// atomic transactions over several tables, indexes, watches and change feeds.
//
// # Rows and snapshots
//
// Rows are immutable: a row is replaced, never changed. A row may be a value or a pointer.
// [DB.ReadTxn] returns a snapshot of all tables: it costs one atomic load, takes no lock,
// blocks nobody, is safe for concurrent use and never expires. Rows read from it stay valid
// forever.
//
// # Queries
//
// A query looks up a typed key in an index: it yields the rows that have the key
// ([Table.List]), whose key begins with it ([Table.Prefix]), whose key is not less
// ([Table.LowerBound]), or whose key is in a range ([Table.Range]). Rows come in the order of
// the index, or backwards ([WithReverse]), and can be limited in number ([WithLimit]). Each
// query has a form with a watch.
//
// # Writing
//
// [DB.Update] runs a function in a transaction on the given tables and commits all of its
// writes or none. Writers of the same table exclude each other; locks are taken in a fixed
// order, so transactions cannot deadlock each other. Commit publishes the new snapshot
// before it closes the watches of what has changed: a goroutine that is woken can read the
// change.
//
// A schema may have defaulters and validators, which complete and reject rows, and unique
// indexes, which can make a commit fail. A rejected write changes nothing.
//
// # Following
//
// A watch only signals a change. [Table.Changes] returns a [Cursor], which yields a listing
// and then inserts, updates and deletes. Intermediate versions of a row may be skipped:
// consumers act on the newest one.
//
// The rows of a table can be derived from the rows of other tables: package derive computes
// only the rows that a change affects.
//
// # Spec and status
//
// A schema may declare a part of the row to be status ([Amend]). Ordinary writes are writes
// of spec: they keep the status if the rest of the row does not change, in which case they
// are no-ops, and reset it otherwise. [RWTable.Amend] writes status, provided that the spec
// has not changed since the caller has read it. So spec and status writes cannot overwrite
// each other, and a status write never makes a compare-and-swap of spec fail.
//
// # Errors
//
// Invalid input never causes a panic: invalid rows, keys and texts, and transactions that
// have ended. Programming errors do: databases, tables, transactions and functions that are
// nil or were not made by this package, and reads by an index that the table does not have.
// A panic in a function of the caller reaches the caller; [DB.Update] rolls back first.
//
// Errors are sentinels (ErrConflict, …) wrapped in types that name the table and the
// key; use errors.Is and errors.As.
package statedb
