// Package engine is the reconciler without the type of its rows, so that it is compiled only
// once. Package reconciler wraps it in typed one-line methods, and its documentation applies
// here too. Rows are entries of package internal/store: opaque handles with a key, a revision and
// a spec revision. Typed code runs only where a function of [Target], [Related], [Dependency]
// or [Observation] is called.
//
// A single goroutine, the loop (loop.go), makes all decisions: it sleeps until something
// happens, and then does what is due. It owns its state; other goroutines reach it through its
// inbox (inbox.go). Four packages do the rest of the work:
//
//   - workqueue holds the rows with work pending, each in one stage.
//   - hold has the reasons not to run a row now, each a policy in a file of its own.
//   - pool has the workers that call the target.
//   - status is the status that a row carries.
//
// # How a row travels
//
//  1. A write of the spec makes a row pending, which is the zero status, and adds a record to
//     the table's change feed (feed.go). A record is only a hint: there is work if and only
//     if the newest row is pending.
//  2. A changed row that nothing holds joins the round (feed.go): up to a thousand rows that
//     need only an Update and are in no map. The next rows are read once each row of the
//     round has its status or has become an item. After 10 ms without progress the rest of a
//     round becomes items.
//  3. Every other row with work pending, or with something to wait for, is an item of the
//     queue, at most once, with all its reasons. A deleted row is always an item, which keeps
//     the last version of the row until the target's Delete has succeeded or the row is back.
//  4. A free worker is given a batch of the round or of one class of the queue (dispatch.go).
//     Only then does the newest row decide which operation to run, and gate.go asks the
//     policies of package hold, in the order of its list, whether it may run.
//  5. The worker calls the target for one row after another, or for many in one call
//     (perform.go), and skips rows whose operation is outdated by then. A watchdog cancels
//     the contexts of operations that take too long, and replaces workers that ignore it.
//  6. Outcomes are collected and written in one transaction (commit.go).
//  7. A row that is done is forgotten. A row that failed, or that its target wants to run
//     again, waits in the queue until it is due, and is listed in the not-done table
//     (notdone.go).
//
// Documentation/life-of-a-row.md has this as a diagram of the stages of a row, which tests
// compare with the code.
//
// # Where to look
//
//   - Backoff is computed by Backoff.After of package hold; Backoff.Next there
//     decides whether it applies to an outcome. It is called twice: by complete in commit.go,
//     when the status is written, and by forecast in notdone.go, just before. Both get the
//     same answer, because the delay is kept in the outcome.
//   - Statuses are written only by setStatuses in commit.go, 10 ms after the first outcome or
//     as soon as no operation is running. The guard is [SetStatus]: it writes nothing if the
//     row is gone or its spec has changed since the operation began. The outcome is then
//     outdated, and the row runs again. The loop never waits for a table that others have
//     locked: a lockRequest waits in the background.
//   - When the table is dropped, watch in loop.go wakes the loop, checkSources sets dropped,
//     and the loop ends without deciding anything more: Run returns [store.ErrDropped]. A
//     worker checks the sources of the newest snapshot before each operation (perform.go), so
//     operations handed out earlier are skipped; finish waits for those already running. A
//     full pass in progress is abandoned with its orphans, because a dropped table no longer
//     tells which rows are wanted.
//
// # Full passes
//
// A full pass (full.go) sends every row through steps 3 to 7 once more, in slices of 64 and in
// a priority class of its own. Then it asks the target what exists and deletes the orphans,
// which are the objects that no row describes. At start the feed delivers every row, so only
// orphans are searched for. The search is postponed while a source is incomplete (startup.go),
// because rows may be missing.
//
// # The rest
//
//   - Before the first operation Run waits for the sources of the table, and for the
//     target's Init (startup.go).
//   - Rows also run because of other tables and events (related.go), because of drift
//     (drift.go), and because a user triggers them (Trigger in gate.go).
//   - Held rows are released in gate.go: by Resume, and when the rows that they wait for are
//     done. Held changes are shown and approved there too; Forget in inbox.go gives up a
//     delete that cannot succeed. Limits can be changed at run time (config.go).
//   - Health is in health.go, the groups of failing rows in failures.go and their log in
//     failure_log.go, metrics in stats.go, explanations of a row in explain.go, and the
//     callers of the Wait methods in waiters.go. Refreshes are in refresh.go.
package engine
