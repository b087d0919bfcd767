package engine

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// maxFailedRows is how many rows a [FailedError] lists.
const maxFailedRows = 1000

// waits holds who waits for rows. Whoever waits does so first until the feed was
// read up to a revision, and the rows of the round that it was read into are done
// or items; and then until no item is in the way that goes back that far.
//
// Of those who wait for all rows only the one with the lowest revision is looked
// at, and while an item that is in its way stays there, nothing else is.
type waits struct {
	pulled  store.Revision // the feed is read up to here
	from    store.Revision // and was up to here before it was read the last time
	settled store.Revision // what is read up to here is done, or an item
	changed bool           // something has come to rest
	orphans bool           // it is known of the surplus from before the start how it stands
	swept   bool           // none of it is left but in items

	unread   waitHeap             // who waits for the feed
	tables   waitHeap             // who waits for all rows
	rows     map[string][]*waiter // who waits for a row, by encoded key
	inTheWay *workqueue.Item      // of the first of tables
}

func (ws *waits) add(w *waiter) {
	ws.unread.add(w)
	ws.changed = true
}

func (ws *waits) remove(w *waiter) {
	switch {
	case w.place != nil:
		heap.Remove(w.place, w.position)
	case !w.all:
		key := w.row
		ws.rows[key] = slices.DeleteFunc(ws.rows[key], func(other *waiter) bool { return other == w })
		if len(ws.rows[key]) == 0 {
			delete(ws.rows, key)
		}
	}
}

// owe says that an item has to do with what was read from the feed the last time.
func (ws *waits) owe(it *workqueue.Item) { it.Block(ws.from + 1) }

// oweNow says that an item is not done, whatever the feed says.
func (ws *waits) oweNow(it *workqueue.Item) { it.Block(ws.from) }

func blocking(it *workqueue.Item) bool {
	_, is := it.Blocking()
	return is
}

func owedBy(it *workqueue.Item) store.Revision {
	since, _ := it.Blocking()
	return since
}

// awaitsFeed says that an item's row is gone, of which the feed has still to tell.
func (l *loop) awaitsFeed(it *workqueue.Item, txn store.ReadTxn) bool {
	if !blocking(it) || !it.Present || it.Deleting || l.waits.pulled >= l.r.p.Table.Revision(txn) {
		return false
	}
	return l.r.find(txn, it.Key) == nil
}

// awaitFeed puts an item aside until the feed tells that its row is gone.
func (l *loop) awaitFeed(it *workqueue.Item) {
	it.Err = nil // of a row that is not there any more
	l.leaveFull(it)
	l.park(it, hold.Reason{Stage: workqueue.Unread})
}

// lostDeletes deletes what waits for the feed to tell that it is gone: the feed
// has lost that. The rest is found as surplus.
func (l *loop) lostDeletes(txn store.ReadTxn, now time.Time) {
	l.waits.swept, l.waits.orphans = false, false
	for _, key := range sortedKeys(l.queue.Items) {
		it := l.queue.Items[key]
		if it.Idle() && !it.Stage().Held() && it.Err == nil && l.awaitsFeed(it, txn) {
			l.setDeleting(it, true)
			l.enqueue(it, workqueue.Changes, workqueue.Change, now)
		}
	}
}

// rested is called when an item is done, or has failed.
func (l *loop) rested(it *workqueue.Item) {
	l.waits.changed = true
	if len(l.waits.rows[it.Key]) > 0 {
		l.answerRow(it.Key)
	}
}

// sought is called when the surplus was looked for, and removed as far as it could be.
func (ws *waits) sought(swept bool) {
	if !ws.swept {
		ws.changed, ws.orphans, ws.swept = true, true, swept
	}
}

// answerWaits answers those who need not wait any longer.
func (l *loop) answerWaits() {
	ws, settled := &l.waits, l.waits.pulled
	if l.round.open > 0 {
		settled = ws.from
	}
	if settled == ws.settled && !ws.changed {
		return
	}
	ws.settled, ws.changed = settled, false
	for ws.unread.Len() > 0 && ws.unread.list[0].revision <= settled {
		l.waitOn(heap.Pop(&ws.unread).(*waiter))
	}
	if ws.orphans {
		ws.orphans = false
		for _, key := range sortedKeys(ws.rows) {
			l.answerRow(key)
		}
	}
	l.answerTables()
}

// waitOn moves on someone whose revision was read.
func (l *loop) waitOn(w *waiter) {
	ws := &l.waits
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

// answerRow answers those who wait for a row and need not any longer.
func (l *loop) answerRow(key string) {
	if len(l.waits.rows[key]) == 0 || l.tableGone() {
		return
	}
	var wait []*waiter
	for _, w := range l.waits.rows[key] {
		if known, err := l.verdict(w, l.queue.Items[key]); known {
			w.answer <- err
		} else {
			wait = append(wait, w)
		}
	}
	if l.waits.rows[key] = wait; len(wait) == 0 {
		delete(l.waits.rows, key)
	}
}

// tableGone says that the table was dropped: that no row is there means nothing then.
func (l *loop) tableGone() bool { return l.r.sources(l.r.p.DB.ReadTxn()).dropped }

// verdict says how it stands with a row, of which there may be no item.
func (l *loop) verdict(w *waiter, it *workqueue.Item) (known bool, err error) {
	if it != nil && it.BlocksRevision(w.revision) {
		if it.Stage().Failed() {
			return true, l.failure([]*workqueue.Item{it}, nil)
		}
		return false, nil
	}
	if l.r.find(l.r.p.DB.ReadTxn(), w.row) == nil && !l.waits.swept {
		orphans := l.unswept()
		return orphans != nil, l.failure(nil, orphans)
	}
	return true, nil
}

// unswept returns why the surplus is not known, if that has failed and rests.
func (l *loop) unswept() error {
	if l.waits.swept || l.full.phase != fullIdle {
		return nil
	}
	return l.plan.err
}

// answerTables answers those who wait for all rows and need not any longer.
func (l *loop) answerTables() {
	ws, orphans := &l.waits, l.unswept()
	if ws.tables.Len() == 0 || l.hindered() || !ws.swept && orphans == nil || l.tableGone() {
		return
	}
	failed, busy := l.failedItems()
	for ws.tables.Len() > 0 && (busy == nil || !busy.BlocksRevision(ws.tables.list[0].revision)) {
		w := heap.Pop(&ws.tables).(*waiter)
		n, _ := slices.BinarySearchFunc(failed, w.revision+1, func(it *workqueue.Item, revision store.Revision) int {
			return cmp.Compare(owedBy(it), revision)
		})
		w.answer <- l.failure(failed[:n], orphans)
	}
	ws.inTheWay = l.hindrance()
}

// hindered says that what was in the way is so still.
func (l *loop) hindered() bool {
	it := l.waits.inTheWay
	return it != nil && l.queue.Items[it.Key] == it && it.BlocksRevision(l.waits.tables.list[0].revision) && !it.Stage().Failed()
}

// hindrance returns any item that is in the way of the first who waits for all
// rows. It is likely to stay longer than the oldest, so that it is seldom looked for.
func (l *loop) hindrance() *workqueue.Item {
	if l.waits.tables.Len() > 0 {
		for _, it := range l.queue.Items {
			if it.BlocksRevision(l.waits.tables.list[0].revision) && !it.Stage().Failed() {
				return it
			}
		}
	}
	return nil
}

// failedItems returns the items that have failed and rest, those that go back
// furthest first, and of the others the one that does.
func (l *loop) failedItems() (failed []*workqueue.Item, busy *workqueue.Item) {
	for _, it := range l.queue.Items {
		switch {
		case !blocking(it):
		case it.Stage().Failed():
			failed = append(failed, it)
		case busy == nil || owedBy(it) < owedBy(busy):
			busy = it
		}
	}
	slices.SortFunc(failed, func(a, b *workqueue.Item) int { return cmp.Compare(owedBy(a), owedBy(b)) })
	return failed, busy
}

// failure returns the error of those who wait for what has failed, or nil.
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

// endWaits answers everybody: nothing will be done any more.
func (l *loop) endWaits() {
	ws := &l.waits
	for _, heap := range []waitHeap{ws.unread, ws.tables} {
		for _, w := range heap.list {
			w.answer <- ErrNotRunning
		}
	}
	for _, waiters := range ws.rows {
		for _, w := range waiters {
			w.answer <- ErrNotRunning
		}
	}
	*ws = waits{pulled: ws.pulled, from: ws.from}
}

// waitHeap is a container/heap of those who wait, by revision.
type waitHeap struct{ list []*waiter }

func (h *waitHeap) add(w *waiter) {
	w.place = h
	heap.Push(h, w)
}

func (h *waitHeap) Len() int           { return len(h.list) }
func (h *waitHeap) Less(i, j int) bool { return h.list[i].revision < h.list[j].revision }

func (h *waitHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].position, h.list[j].position = i, j
}

// Push implements heap.Interface.
func (h *waitHeap) Push(x any) {
	w := x.(*waiter)
	w.position = len(h.list)
	h.list = append(h.list, w)
}

// Pop implements heap.Interface.
func (h *waitHeap) Pop() any {
	last := len(h.list) - 1
	w := h.list[last]
	h.list[last], h.list = nil, h.list[:last]
	w.place = nil
	return w
}
