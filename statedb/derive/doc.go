// Package derive fills a table, the output, with rows computed from the rows of other tables,
// the inputs.
//
// Every change of an input affects certain rows of the output, as determined from the old
// and the new version of the input row ([From]). These are computed again, from one
// snapshot of all inputs, and written. So the result does not depend on the order of
// changes or on seeing each of them, and only affected rows are computed. Rows are written
// in key order, up to 1,000 in a transaction.
//
// # Ownership
//
// The output belongs to the derivation: a row that anything else writes to it stays until its
// key is computed the next time, and is then replaced or deleted. Others may write status
// ([statedb.RWTable.Amend]).
//
// When [Derivation.Run] starts, and after a [statedb.Reset] of an input, all rows that any
// input row affects are computed. Rows that no input row affects are deleted, except while
// an input is incomplete. No row of the output is deleted before the inputs are initialized.
//
// # Sources
//
// The output has a source. It is initialized once all inputs are initialized and the rows
// computed from them are in the output. It is incomplete, with the reason, while an input is
// incomplete or a row cannot be computed or written. So no snapshot lacks a row without
// reporting it.
//
// # Failures
//
// If a row cannot be computed, is rejected, or shares a unique key with another one, only
// that row fails: it stays as it was, and is retried when an input affects it, and until
// then with growing pauses. Each failure is logged, counted, passed to OnError and reported
// to Health.
package derive
