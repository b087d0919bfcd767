package workqueue

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/duetime"
)

// Queue holds the items. Make it with [New].
type Queue struct {
	Items map[string]*Item // by encoded key; only the queue adds and removes
	// Overtaken: an item in a worker's batch, perhaps not begun, has got a higher priority.
	Overtaken bool
	// OnMove is called when a row changes its stage. It may be nil.
	OnMove func(from, to string)

	ready    [Classes]fifo
	suspects map[string]*Item // ready items that may have drifted, and have not been compared yet
	credit   [Classes]int
	timed    duetime.Heap[*Item]
	counts   [Stages]int
}

// New returns an empty queue.
func New() *Queue {
	return &Queue{
		Items: map[string]*Item{}, suspects: map[string]*Item{}, credit: weights,
		timed: duetime.New(func(it *Item) time.Time { return it.due }, func(it *Item) *int { return &it.heapAt }),
	}
}

// Get returns the item of a row, creating it if necessary. A new item is at rest, and must be moved
// to another stage.
func (q *Queue) Get(key string) *Item { return q.get(key, Rest) }

// Adopt returns the item of a row of the round.
func (q *Queue) Adopt(key string) *Item { return q.get(key, InRound) }

func (q *Queue) get(key string, stage Stage) *Item {
	it := q.Items[key]
	if it == nil {
		it = &Item{Key: key, position: position{stage: stage, heapAt: -1}}
		q.Items[key] = it
		q.counts[stage]++
	}
	return it
}

// Enqueue makes an item ready, whatever it waits for. An item that a worker has is marked dirty
// instead. An item that is already ready moves to the new class if that has a higher priority.
func (q *Queue) Enqueue(it *Item, class Class, why Reason, now time.Time) {
	if it.Since.IsZero() {
		it.Since = now
	}
	it.Reasons |= why
	switch {
	case it.stage.InHand():
		it.Dirty = true
		q.Overtaken = q.Overtaken || class < it.class
	case it.stage != Queued:
		q.Requeue(it, class)
	case class < it.class:
		q.ready[it.class].remove(it)
		it.class = class
		q.ready[class].push(it)
	}
	if why&Drifted != 0 && it.stage == Queued {
		q.suspects[it.Key] = it
	}
}

// TakeSuspects returns the ready items that were enqueued since the last call because they may have
// drifted.
func (q *Queue) TakeSuspects() (suspects []*Item) {
	if len(q.suspects) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(q.suspects)) {
		suspects = append(suspects, q.suspects[key])
	}
	clear(q.suspects)
	return suspects
}

// Requeue makes an item ready that is not ready, even if it has just come back from a worker.
func (q *Queue) Requeue(it *Item, class Class) {
	q.stopWaiting(it)
	it.class = class
	q.transition(it, Queued)
	q.ready[class].push(it)
}

// PutBack returns a popped item that did not run to the front of its class.
func (q *Queue) PutBack(it *Item, class Class) {
	it.class = class
	q.transition(it, Queued)
	q.ready[class].pushFront(it)
}

// Wait moves an item to a waiting stage until due, or until it is enqueued if due is zero. The
// detail describes what it waits for.
func (q *Queue) Wait(it *Item, stage Stage, due time.Time, detail string) {
	q.stopWaiting(it)
	it.due, it.detail = due, detail
	if !due.IsZero() {
		q.timed.Add(it)
	}
	q.transition(it, stage)
}

// Move moves an item that is not ready to a stage for which [Stage.InHand] reports true.
func (q *Queue) Move(it *Item, to Stage) { q.transition(it, to) }

func (q *Queue) stopWaiting(it *Item) {
	q.timed.Remove(it)
	it.due, it.detail = time.Time{}, ""
}

// Forget removes an item, which is at rest then.
func (q *Queue) Forget(it *Item) {
	q.stopWaiting(it)
	q.transition(it, Rest)
	q.counts[Rest]--
	delete(q.Items, it.Key)
}

// NextDue returns the item that is due first, or nil.
func (q *Queue) NextDue() *Item {
	it, _ := q.timed.First()
	return it
}

// Timed returns the number of items whose wait ends by itself.
func (q *Queue) Timed() int { return q.timed.Len() }

// In returns the number of items in a stage.
func (q *Queue) In(s Stage) int { return q.counts[s] }

// Ready returns how many items of a class are ready, and the first of them, or nil.
func (q *Queue) Ready(c Class) (n int, first *Item) { return q.ready[c].length, q.ready[c].head }

// Turn returns the class whose turn it is, and how many operations it may run in this turn. More is
// the number of ready changes that are not items.
func (q *Queue) Turn(more int) (turn Class, n int) {
	length := func(c Class) int {
		if c == Changes {
			return q.ready[c].length + more
		}
		return q.ready[c].length
	}
	total := 0
	for c := range Classes {
		total += length(c)
	}
	if total == 0 {
		return 0, 0
	}
	for range 2 { // the second time with fresh credit
		for c := range Classes {
			switch n := length(c); {
			case n == 0 || q.credit[c] <= 0:
			case n == total:
				return c, n // no other class has ready items
			default:
				return c, min(n, q.credit[c])
			}
		}
		q.credit = weights
	}
	return 0, 0
}

// Spend takes operations off the credit of a class, and returns how many it had credit for.
func (q *Queue) Spend(c Class, n int) (spent int) {
	spent = min(n, q.credit[c])
	q.credit[c] -= spent
	return spent
}

// Refund returns credit that was spent for operations that did not begin.
func (q *Queue) Refund(c Class, n int) { q.credit[c] = min(weights[c], q.credit[c]+n) }

// Pop removes and returns the first item of a class, or nil. The caller must move it to another
// stage, or put it back, before using the queue again.
func (q *Queue) Pop(from Class) *Item {
	it := q.ready[from].head
	if it != nil {
		q.Take(it)
	}
	return it
}

// Take removes a ready item, as Pop does.
func (q *Queue) Take(it *Item) {
	q.ready[it.class].remove(it)
	delete(q.suspects, it.Key)
}

// Wake makes the items ready that are due at now.
func (q *Queue) Wake(now time.Time) {
	for it := q.NextDue(); it != nil && !it.due.After(now); it = q.NextDue() {
		since := it.due
		switch {
		case it.stage == Debounce:
			q.Enqueue(it, Changes, 0, since)
		case it.stage == Refresh || it.stage == Drift && it.due.Equal(it.Refresh):
			it.Force, it.Refresh = true, time.Time{}
			q.Enqueue(it, Refreshes, Elapsed, since)
		case it.stage == Settle || it.stage == Drift:
			it.Force = true
			q.Enqueue(it, Retries, Drifted, since)
		case it.Err != nil:
			it.Force = true
			q.Enqueue(it, Retries, Retry, since)
		default:
			it.Force = true
			q.Enqueue(it, Retries, Repeat, since)
		}
	}
}

// Pass records that a row that is not an item moves from one stage to another.
func (q *Queue) Pass(from, to Stage) {
	if Checked && !Legal(from, to) {
		panic(fmt.Sprintf("workqueue: a row came from stage %v to %v, which is not legal", from, to))
	}
	if q.OnMove != nil {
		q.OnMove(from.String(), to.String())
	}
}

// Idle reports whether the item waits or is new.
func (it *Item) Idle() bool { return it.stage == Rest || it.stage.Waiting() }
