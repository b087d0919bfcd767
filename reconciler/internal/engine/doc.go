// Package engine is the reconciler without the type of its rows, so that it is compiled once.
// Package reconciler adds the type, in methods of a line each; what it documents holds here
// too. Rows are entries of package internal/store: opaque handles with a key, a revision and
// a spec revision. Typed code runs only where a function of [Target], [Related], [Dependency]
// or [Observation] is called.
//
// # How a row travels
//
// One goroutine decides, some workers carry out. What decides is the loop
// (loop.go): it sleeps until something has happened, and then looks at what there
// is to do. All that it knows belongs to it alone; others reach it through its
// inbox (inbox.go).
//
//  1. A write of spec makes a row pending, which is the zero status,
//     and puts a record into the table's change feed. The loop pulls the records.
//     One is only a hint: the status on the newest row says whether there is work.
//  2. A changed row that nothing stands against is put into the round (round.go):
//     up to a thousand rows that need nothing but an Update, because what they depend
//     on is done, and are in no map. The next ones are read when each of them has its
//     status, or is an item because it has failed; after 10 ms what is left of a round
//     becomes items.
//  3. Every other row with something to be done, or to wait for, is an item of the
//     queue (package workqueue), at most once, with all the reasons for it. It is
//     ready in one of four lanes with guaranteed shares , or waits.
//  4. A worker that is free is given a batch, of the round or of a lane
//     (dispatch.go). Only now it is decided by the newest row what is to be done,
//     and whether it may be: what may not is put aside (the gate, in gate.go).
//  5. The worker calls the target for one row after another (package pool)
//     or for many in one go if it takes batches (perform.go):
//     all but retries, so that a row that spoils a batch is found. A watchdog (perform.go) ends the contexts of operations that
//     take too long, and replaces workers that do not heed that.
//  6. What came of operations is collected and their statuses written in one
//     transaction (commit.go), 10 ms after the first of them at the latest, or when
//     no operation runs. If the spec is not the one any more that was worked on,
//     nothing is written to the row, and it is run again. A row that is done is
//     forgotten then.
//  7. A row that has failed, or that its target wants again, waits in the queue for
//     its time, which hold.Backoff decides. Meanwhile it stands in the not-done
//     table (notdone.go, with what writes it).
//
// A row that is deleted is always an item: it keeps the row as it was last until
// the target's Delete has succeeded or the row is there again.
//
// A full pass (full.go) sends every row this way once more, in slices of 64 in a
// lane of its own, and then removes what the target has and the table has not. At
// start the feed has every row; what is not done is applied, and the surplus is
// removed after that.
//
// Documentation/life-of-a-row.md has all this as a diagram of the stages of a row
// , which tests hold against the code.
//
// # What else there is
//
//   - The start: Run waits for the sources of the table (startup.go) and for the
//     target's Init (startup.go).
//   - What runs rows besides changes: triggers by hand (gate.go), rows of other
//     tables and events (related.go).
//   - What holds rows: pauses (gate.go), the limits of changes (package hold), whose
//     plan waits for an approval (plan.go), rows that they depend on, and
//     deletes that come first (gate.go, and package hold). The rate limit (limits.go) holds everybody.
//   - What tells how it stands: health (health.go), figures (stats.go, meters.go),
//     explanations of a row (explain.go), and waiting for rows (waiting.go,
//     waits.go).
//   - A delete that cannot succeed is given up in inbox.go.
package engine
