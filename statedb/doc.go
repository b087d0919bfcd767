// Package statedb is an in-memory database of typed tables with snapshots,
// atomic transactions over several tables, indexes, watches and change feeds.
//
// # Rows and snapshots
//
// Rows are immutable: a row is replaced, never changed. A row may be a value or
// a pointer. [DB.ReadTxn] is a snapshot of all tables: it costs one atomic load,
// takes no lock, blocks nobody, is safe for concurrent use and never ends. What
// is read from it stays valid for ever.
//
// # Queries
//
// A query asks an index by a typed key: the rows that have it ([Table.List]),
// that begin with it, from it on, or up to another one, in the order of the
// index, forward or in [Reverse], with a [Limit]. Each has a form with a watch.
//
// # Writing
//
// [DB.Update] runs a function in a transaction on the tables it names and
// commits it whole or not at all. Writers of one table exclude each other;
// locks are taken in a fixed order, so transactions cannot deadlock each other.
// Commit first publishes the new snapshot and then closes the watches of what
// has changed: who wakes up can read it.
//
// A schema may have defaulters and validators, which complete and refuse rows,
// and unique indexes, which refuse a commit. What is refused changes nothing.
//
// # Following
//
// A watch says that something changed; [Table.Changes] says what: a [Cursor]
// yields a listing and then inserts, updates and deletes. Nobody has to see each
// value: consumers act on the newest row.
//
// The rows of a table can be derived from those of others: a [Deriver] computes
// what a change affects, and nothing else.
//
// # Spec and status
//
// A schema may say which part of a row is status ([Amend]). Ordinary writes are
// writes of spec: they carry the status along, are no-ops when nothing else
// differs, and reset it otherwise. [RWTable.Amend] writes status, provided that
// the spec is still the one that the caller has seen. So neither can overwrite
// the other, and a status write never breaks a compare-and-swap of spec.
//
// # Errors
//
// Nothing panics on input: rows, keys, queries, texts and transactions that have
// ended. Databases, tables, transactions and functions that are nil, or were not made
// by this package, are mistakes in the program and do. A panic in a function of the
// caller's goes to the caller; [DB.Update] rolls back before.
//
// Errors are sentinels (ErrConflict, …) wrapped in types that name the table and the
// key; use errors.Is and errors.As.
package statedb
