package pool

import (
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Batch is a sequence of tasks on rows of one snapshot for a worker. Tasks that have not begun can
// be taken back.
type Batch struct {
	Tasks   []Task
	Txn     store.ReadTxn
	Read    time.Time // when Txn was the newest
	At      time.Time // when it was handed out
	Class   workqueue.Class
	OfRound bool
	Spent   int // the credit of its class that was spent on it
	Answer  Answer

	next      atomic.Int32 // first task that has not begun
	done      atomic.Int32 // tasks before it have ended
	limit     int          // owner's: tasks from here on were taken back
	collected int          // owner's: tasks before it were returned by Ended
}

// claim returns the range [first, last) of the next tasks, which can no longer be taken back. It
// has one task or, if joined, all consecutive tasks of the same kind, which are carried out in
// one call. It is empty when no tasks are left.
func (b *Batch) claim(joined bool) (first, last int) {
	for {
		next := b.next.Load()
		first, last = int(next), int(next)
		for last < len(b.Tasks) && (last == first || joined && b.Tasks[last].Kind == b.Tasks[first].Kind) {
			last++
		}
		if first >= last || b.next.CompareAndSwap(next, int32(last)) {
			return first, last
		}
	}
}

// TakeBack removes and returns the tasks that have not begun.
func (b *Batch) TakeBack() []Task {
	next := min(int(b.next.Swap(int32(len(b.Tasks)))), b.limit)
	taken := b.Tasks[next:b.limit]
	b.limit = next
	return taken
}

// Asks reports whether the batch is a single Observe or Prune.
func (b *Batch) Asks() bool { return len(b.Tasks) == 1 && b.Tasks[0].Kind.Question() }

// Remaining returns the tasks that have not begun.
func (b *Batch) Remaining() []Task { return b.Tasks[min(b.limit, int(b.next.Load())):b.limit] }

// Kept returns the number of tasks that were not taken back.
func (b *Batch) Kept() int { return b.limit }

// InHand returns the tasks that have begun and not ended: one, or all tasks of the current call.
func (b *Batch) InHand() []Task {
	first, last := int(b.done.Load()), min(b.limit, int(b.next.Load()))
	return b.Tasks[min(first, last):last]
}

// Ended returns the tasks that have ended since the last call.
func (b *Batch) Ended() []Task {
	first := b.collected
	b.collected = int(b.done.Load())
	return b.Tasks[first:b.collected]
}

// Uncollected returns the tasks that were not taken back and that Ended has not returned.
func (b *Batch) Uncollected() []Task { return b.Tasks[min(b.collected, b.limit):b.limit] }

// Progress is the progress of a task.
type Progress uint8

// The values of Progress.
const (
	Elsewhere Progress = iota // it is not in the batch
	Waiting                   // it waits for tasks before it
	Begun
	Ended
)

// ProgressOf returns the progress of an item's task, its kind, and how many tasks run before it.
func (b *Batch) ProgressOf(it *workqueue.Item) (how Progress, kind Kind, before int) {
	at := b.collected
	for at < b.limit && b.Tasks[at].Item != it { // other fields may be written by the worker
		at++
	}
	switch next := int(b.next.Load()); {
	case at >= b.limit:
		return Elsewhere, kind, 0
	case at < int(b.done.Load()):
		return Ended, b.Tasks[at].Kind, 0
	case at >= next:
		return Waiting, b.Tasks[at].Kind, at - next + 1
	default:
		return Begun, b.Tasks[at].Kind, 0
	}
}
