package engine

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// FailedError is returned by the Wait methods when some of the rows have failed and no other row is
// still pending.
type FailedError struct {
	Reconciler string
	Rows       []FailedRow // ordered by key; at most a thousand
	More       int         // failed rows beyond those
	// Orphans is why the orphans of the target could not be found, or nil if they were.
	// If it is not nil, what was deleted before the reconciler started may still be there.
	Orphans error
}

// FailedRow is a row whose last operation has failed.
type FailedRow struct {
	Key       string // the primary key as text
	Operation string // update or delete
	Err       error  // as the target returned it
}

// Error implements error. It names the first rows.
func (e *FailedError) Error() string {
	const named = 3
	var parts []string
	for _, row := range e.Rows[:min(named, len(e.Rows))] {
		parts = append(parts, fmt.Sprintf("%s %s: %v", row.Operation, row.Key, row.Err))
	}
	if more := len(e.Rows) + e.More - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	if e.Orphans != nil {
		parts = append(parts, fmt.Sprintf("orphans: %v", e.Orphans))
	}
	return fmt.Sprintf("reconciler %s: %s", e.Reconciler, strings.Join(parts, "; "))
}

// Unwrap returns the errors of the rows and of the search for orphans.
func (e *FailedError) Unwrap() []error {
	errs := make([]error, 0, len(e.Rows)+1)
	for _, row := range e.Rows {
		errs = append(errs, row.Err)
	}
	if e.Orphans != nil {
		errs = append(errs, e.Orphans)
	}
	return errs
}

// WaitRow waits until the row with the primary key of obj is reconciled as the table has it now,
// or as of a later write: done, or gone from the target if the table has no such row. A row that
// never existed counts as gone once the reconciler has removed orphans after its start.
//
// Like [Reconciler.WaitTable] and [Reconciler.WaitRevision] it returns:
//
//   - nil on success;
//   - a [FailedError] if everything still missing has failed and is idle: backing off, failed
//     for good, or stuck. That may be the case from the beginning; use [Reconciler.Trigger]
//     first to have the rows retried. Held and paused rows have not failed, and are waited for,
//     and so are sources that have not delivered yet;
//   - [ErrNotRunning] when the reconciler stops. If it has not started yet, the call waits for
//     it, so Run may be called concurrently;
//   - ctx's error if ctx ends first.
func (r *Engine) WaitRow(ctx context.Context, key string) error {
	return r.wait(ctx, &waiter{revision: r.p.Table.Revision(r.p.DB.ReadTxn()), row: key})
}

// WaitTable waits until the whole table is reconciled as of now: every row, or a later write of
// it, is done, and what is not in the table is gone from the target. It returns as
// [Reconciler.WaitRow] does.
func (r *Engine) WaitTable(ctx context.Context) error {
	return r.WaitRevision(ctx, r.p.Table.Revision(r.p.DB.ReadTxn()))
}

// WaitRevision is [Reconciler.WaitTable] as of a revision, which may lie in the future. Rows
// written soon after it may be waited for too, and may be why it fails.
func (r *Engine) WaitRevision(ctx context.Context, revision store.Revision) error {
	return r.wait(ctx, &waiter{revision: revision, all: true})
}

// waiter is a call of a Wait method. Its last fields belong to the loop.
type waiter struct {
	revision store.Revision
	row      string // its encoded key, if all is false
	all      bool
	answer   chan error // has room for one

	heap     *waiterHeap // the heap it is in, or nil
	position int         // its index there
}

func (r *Engine) wait(ctx context.Context, w *waiter) error {
	select {
	case <-r.opened:
	case <-r.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
	w.answer = make(chan error, 1)
	if err := r.inbox.post(func(l *loop) { l.waiters.add(w) }); err != nil {
		return err
	}
	select {
	case err := <-w.answer:
		return err
	case <-ctx.Done():
		// A refusal does no harm: the loop has ended and dropped all waiters.
		_ = r.inbox.post(func(l *loop) { l.waiters.remove(w) })
		return ctx.Err()
	}
}

// maxFailedRows is how many rows a [FailedError] lists.
const maxFailedRows = 1000

// waiters are the callers waiting for rows. A waiter is unread until the feed has been read up
// to its revision and the rows of that round are done or items. After that it waits until no
// item blocks its revision.
//
// Of the waiters for all rows only the one with the lowest revision is checked, and not before
// the item that blocks it has changed.
type waiters struct {
	read         store.Revision // the feed has been read up to here
	readBefore   store.Revision // and up to here before the last read
	complete     store.Revision // every change up to here is done or is an item
	changed      bool           // an item is done or has failed since the last check
	orphansKnown bool           // a search for orphans has ended and answerWaiters has not seen that yet
	orphansFound bool           // a search for orphans has succeeded: each remaining orphan is an item

	unread  waiterHeap           // those whose revision has not been read
	tables  waiterHeap           // those for all rows
	rows    map[string][]*waiter // those for one row, by encoded key
	blocker *workqueue.Item      // an item that blocks the first of tables
}

func (ws *waiters) add(w *waiter) {
	ws.unread.add(w)
	ws.changed = true
}

func (ws *waiters) remove(w *waiter) {
	switch {
	case w.heap != nil:
		heap.Remove(w.heap, w.position)
	case !w.all:
		key := w.row
		ws.rows[key] = slices.DeleteFunc(ws.rows[key], func(other *waiter) bool { return other == w })
		if len(ws.rows[key]) == 0 {
			delete(ws.rows, key)
		}
	}
}

// pendingSinceRead marks an item as pending since the last read of the feed.
func (ws *waiters) pendingSinceRead(it *workqueue.Item) { it.Block(ws.readBefore + 1) }

// pendingNow marks an item as pending, whatever the feed still has to deliver.
func (ws *waiters) pendingNow(it *workqueue.Item) { it.Block(ws.readBefore) }

func blocking(it *workqueue.Item) bool {
	_, is := it.Blocking()
	return is
}

func pendingSince(it *workqueue.Item) store.Revision {
	since, _ := it.Blocking()
	return since
}

// notifyWaiters is called when an item is done, or has failed.
func (l *loop) notifyWaiters(it *workqueue.Item) {
	l.waiters.changed = true
	if len(l.waiters.rows[it.Key]) > 0 {
		l.answerRow(it.Key)
	}
}

// orphansSearched is called when a search for orphans has ended. Those found are items.
func (ws *waiters) orphansSearched(found bool) {
	if !ws.orphansFound {
		ws.changed, ws.orphansKnown, ws.orphansFound = true, true, found
	}
}

// answerWaiters answers the waiters that need not wait any longer.
func (l *loop) answerWaiters() {
	ws, complete := &l.waiters, l.waiters.read
	if l.round.open > 0 {
		complete = ws.readBefore
	}
	if complete == ws.complete && !ws.changed {
		return
	}
	ws.complete, ws.changed = complete, false
	for ws.unread.Len() > 0 && ws.unread.list[0].revision <= complete {
		l.waitOn(heap.Pop(&ws.unread).(*waiter))
	}
	if ws.orphansKnown {
		ws.orphansKnown = false
		for _, key := range sortedKeys(ws.rows) {
			l.answerRow(key)
		}
	}
	l.answerTables()
}

// waitOn moves on a waiter whose revision has been read.
func (l *loop) waitOn(w *waiter) {
	ws := &l.waiters
	if w.all {
		ws.tables.add(w)
		return
	}
	if ws.rows == nil {
		ws.rows = map[string][]*waiter{}
	}
	key := w.row
	ws.rows[key] = append(ws.rows[key], w)
	l.answerRow(key)
}

// answerRow answers the waiters for a row that need not wait any longer.
func (l *loop) answerRow(key string) {
	if len(l.waiters.rows[key]) == 0 || l.tableGone() {
		return
	}
	var wait []*waiter
	for _, w := range l.waiters.rows[key] {
		if known, err := l.verdict(w, l.queue.Items[key]); known {
			w.answer <- err
		} else {
			wait = append(wait, w)
		}
	}
	if l.waiters.rows[key] = wait; len(wait) == 0 {
		delete(l.waiters.rows, key)
	}
}

// tableGone reports whether the table was dropped, so that missing rows mean nothing.
func (l *loop) tableGone() bool { return l.r.sources(l.r.p.DB.ReadTxn()).dropped }

// verdict returns the answer for a waiter for a row, if it is known. The item may be nil.
func (l *loop) verdict(w *waiter, it *workqueue.Item) (known bool, err error) {
	if it != nil && it.BlocksRevision(w.revision) {
		if it.Stage().Failed() {
			return true, l.failure([]*workqueue.Item{it}, nil)
		}
		return false, nil
	}
	if l.r.find(l.r.p.DB.ReadTxn(), w.row) == nil && !l.waiters.orphansFound {
		orphans := l.orphansError()
		return orphans != nil, l.failure(nil, orphans)
	}
	return true, nil
}

// orphansError returns the error of a failed search for orphans that is not being repeated right now.
func (l *loop) orphansError() error {
	if l.waiters.orphansFound || l.full.phase != fullIdle {
		return nil
	}
	return l.plan.err
}

// answerTables answers the waiters for all rows that need not wait any longer.
func (l *loop) answerTables() {
	ws, orphans := &l.waiters, l.orphansError()
	if ws.tables.Len() == 0 || l.blocked() || !ws.orphansFound && orphans == nil || l.tableGone() {
		return
	}
	failed, busy := l.failedItems()
	for ws.tables.Len() > 0 && (busy == nil || !busy.BlocksRevision(ws.tables.list[0].revision)) {
		w := heap.Pop(&ws.tables).(*waiter)
		n, _ := slices.BinarySearchFunc(failed, w.revision+1, func(it *workqueue.Item, revision store.Revision) int {
			return cmp.Compare(pendingSince(it), revision)
		})
		w.answer <- l.failure(failed[:n], orphans)
	}
	ws.blocker = l.findBlocker()
}

// blocked reports whether the item that blocked the first of tables still does.
func (l *loop) blocked() bool {
	it := l.waiters.blocker
	return it != nil && l.queue.Items[it.Key] == it && it.BlocksRevision(l.waiters.tables.list[0].revision) && !it.Stage().Failed()
}

// findBlocker returns any item that blocks the first of tables. An arbitrary one is likely to
// outlast the oldest, so that the search is rare.
func (l *loop) findBlocker() *workqueue.Item {
	if l.waiters.tables.Len() > 0 {
		for _, it := range l.queue.Items {
			if it.BlocksRevision(l.waiters.tables.list[0].revision) && !it.Stage().Failed() {
				return it
			}
		}
	}
	return nil
}

// failedItems returns the items that have failed and are idle, ordered by the revision they are
// pending since, and the oldest of the other pending items.
func (l *loop) failedItems() (failed []*workqueue.Item, busy *workqueue.Item) {
	for _, it := range l.queue.Items {
		switch {
		case !blocking(it):
		case it.Stage().Failed():
			failed = append(failed, it)
		case busy == nil || pendingSince(it) < pendingSince(busy):
			busy = it
		}
	}
	slices.SortFunc(failed, func(a, b *workqueue.Item) int { return cmp.Compare(pendingSince(a), pendingSince(b)) })
	return failed, busy
}

// failure returns the error for waiters, or nil if nothing has failed.
func (l *loop) failure(failed []*workqueue.Item, orphans error) error {
	if len(failed) == 0 && orphans == nil {
		return nil
	}
	failed = slices.SortedFunc(slices.Values(failed), func(a, b *workqueue.Item) int { return cmp.Compare(a.Key, b.Key) })
	listed := failed[:min(len(failed), maxFailedRows)]
	err := &FailedError{Reconciler: l.r.p.Name, More: len(failed) - len(listed), Orphans: orphans}
	for _, it := range listed {
		op := pool.Update
		if it.Deleting {
			op = pool.Delete
		}
		err.Rows = append(err.Rows, FailedRow{Key: l.r.p.Table.KeyText(it.Entry), Operation: op.String(), Err: it.Err})
	}
	return err
}

// endWaiters answers all waiters, because the loop ends.
func (l *loop) endWaiters() {
	ws := &l.waiters
	for _, heap := range []waiterHeap{ws.unread, ws.tables} {
		for _, w := range heap.list {
			w.answer <- ErrNotRunning
		}
	}
	for _, waiters := range ws.rows {
		for _, w := range waiters {
			w.answer <- ErrNotRunning
		}
	}
	*ws = waiters{read: ws.read, readBefore: ws.readBefore}
}

// waiterHeap is a heap of waiters by revision.
type waiterHeap struct{ list []*waiter }

func (h *waiterHeap) add(w *waiter) {
	w.heap = h
	heap.Push(h, w)
}

func (h *waiterHeap) Len() int           { return len(h.list) }
func (h *waiterHeap) Less(i, j int) bool { return h.list[i].revision < h.list[j].revision }

func (h *waiterHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].position, h.list[j].position = i, j
}

// Push implements heap.Interface.
func (h *waiterHeap) Push(x any) {
	w := x.(*waiter)
	w.position = len(h.list)
	h.list = append(h.list, w)
}

// Pop implements heap.Interface.
func (h *waiterHeap) Pop() any {
	last := len(h.list) - 1
	w := h.list[last]
	h.list[last], h.list = nil, h.list[:last]
	w.heap = nil
	return w
}
