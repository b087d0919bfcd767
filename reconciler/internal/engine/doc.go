// Package engine is the reconciler without the type of its rows, so that it is compiled once.
// Package reconciler adds the type, in methods of a line each; what it documents holds here
// too. Rows are entries of package internal/store: opaque handles with a key, a revision and
// a spec revision. Typed code runs only where a function of [Target], [Related], [Dependency]
// or [Observation] is called.
//
// One goroutine, the loop (loop.go), decides everything: it sleeps until something has
// happened, and then does what is due. It owns its state; other goroutines reach it through
// its inbox (inbox.go). Four packages do the rest of the work:
//
//   - workqueue keeps the rows that have something to be done, each in one stage.
//   - hold has the reasons not to run a row now, each a policy in a file of its own.
//   - pool has the workers that call the target.
//   - status is what a row carries.
//
// # How a row travels
//
//  1. A write of spec makes a row pending, which is the zero status, and puts a record into
//     the table's change feed (feed.go). A record is only a hint: the status on the newest
//     row says whether there is work.
//  2. A changed row that nothing holds back is put into the round (feed.go): up to a
//     thousand rows that need nothing but an Update and are in no map. The next ones are
//     read when each of them has its status, or is an item. After 10 ms without progress the
//     rest of a round becomes items.
//  3. Every other row with something to be done, or to wait for, is an item of the queue, at
//     most once, with all the reasons for it. A row that is deleted is always one: it keeps
//     the row as it was last until the target's Delete has succeeded or the row is there
//     again.
//  4. A free worker is given a batch of the round or of one class of the queue (dispatch.go).
//     Only now it is decided by the newest row what is to be done, and gate.go asks the
//     policies of package hold, in the order of its list, whether it may be.
//  5. The worker calls the target for one row after another, or for many in one call
//     (perform.go), unless the row has changed too much meanwhile. A watchdog ends the
//     contexts of operations that take too long, and replaces workers that go on regardless.
//  6. Outcomes are collected and written in one transaction (commit.go).
//  7. A row that is done is forgotten. One that has failed, or that its target wants again,
//     waits in the queue for its time, and stands in the not-done table (notdone.go).
//
// Documentation/life-of-a-row.md has this as a diagram of the stages of a row, which tests
// hold against the code.
//
// # Where to look
//
//   - Backoff is computed by Backoff.After of package hold; Backoff.Next there
//     decides whether it applies to an outcome. It is called twice: by complete in commit.go,
//     when the status is written, and by forecast in notdone.go, just before. Both get the
//     same answer, because the delay is kept in the outcome.
//   - A status is written by setStatuses in commit.go alone, 10 ms after the first outcome or
//     as soon as no operation runs. The guard is [SetStatus]: it writes nothing if the spec
//     of the row is not the one that was worked on, or the row is gone. The outcome is
//     outdated then, and the row runs again. The loop never waits for a table that others have
//     locked: a lockRequest waits in the background.
//   - When the table is dropped, watch in loop.go wakes the loop, checkSources sets dropped,
//     and the loop ends before it decides anything more: Run returns [store.ErrDropped]. A worker
//     asks the sources of the newest snapshot before each operation (perform.go), so what was
//     handed out before is skipped; what runs already ends in finish. A full pass under way
//     is given up with its orphans: a dropped table does not tell which rows are wanted.
//
// # Full passes
//
// A full pass (full.go) sends every row through steps 3 to 7 once more, in slices of 64 in a
// class of their own. Then it asks the target what exists, and deletes the orphans: whatever
// no row describes. At start the feed has every row, so only orphans are searched for. That is
// postponed while a source is incomplete (startup.go), because rows may be missing.
//
// # The rest
//
//   - Before the first operation Run waits for the sources of the table, and for the
//     target's Init (startup.go).
//   - Rows also run because of other tables and events (related.go), of what is observed
//     (drift.go), and by hand (Trigger in gate.go).
//   - What is held is released in gate.go: Pause and Resume, and the rows that others have
//     waited for. Held changes are shown and approved there too; Forget in inbox.go gives
//     up a delete that cannot succeed. Limits can be changed while it runs (config.go).
//   - Health is in health.go, the groups of failing rows in failures.go and their log in
//     failure_log.go, metrics in stats.go, explanations of a row in explain.go, and the callers
//     that wait for rows in waiters.go. Rows are applied again after a time in refresh.go.
package engine
