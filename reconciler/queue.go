package reconciler

import (
	"container/heap"
	"time"

	"github.com/statehive/statehive/statedb"
)

// The states of an item. It exists only while its row is not done.
type itemState uint8

const (
	queued     itemState = iota // in a lane
	running                     // in the hands of a worker
	committing                  // its outcome waits for the status commit
	waiting                     // for its due time, or for a new spec if it has none
)

// item is a row that has something to be done, or to wait for.
type item[Obj any] struct {
	key   string // encoded primary key
	query statedb.Query[Obj]
	last  Obj // the newest row that was seen: what a delete is given

	state    itemState
	deleting bool // the row is gone from the table; Delete has not succeeded yet
	force    bool // run although the row's status says that it is done
	full     bool // the full pass under way waits for it
	surplus  bool // deleting what the target has, and the table had not when the full pass looked
	dirty    bool // changed while running or committing
	noted    bool // the ledger has been told of it

	attempts int // failed ones in a row
	err      error
	due      time.Time // when waiting; zero: no time
	heapAt   int       // place in the heap, or -1

	lane           lane // when queued
	previous, next *item[Obj]
}

// queue holds the items. It is used by one goroutine.
type queue[Obj any] struct {
	items  map[string]*item[Obj]
	ready  [lanes]fifo[Obj]
	credit [lanes]int
	timed  dueHeap[Obj]
}

func newQueue[Obj any]() *queue[Obj] {
	return &queue[Obj]{items: map[string]*item[Obj]{}, credit: shares}
}

// get returns the item of a row, making one if there is none. A new one is in
// state waiting, without a due time.
func (q *queue[Obj]) get(query statedb.Query[Obj]) *item[Obj] {
	key := query.Encoded()
	it := q.items[key]
	if it == nil {
		it = &item[Obj]{key: key, query: query, state: waiting, heapAt: -1}
		q.items[key] = it
	}
	return it
}

// enqueue makes an item ready. One that is running or committing is marked as
// dirty instead. One that is ready moves up if the new reason is a better one:
// a key is in the lanes at most once.
func (q *queue[Obj]) enqueue(it *item[Obj], in lane) {
	switch it.state {
	case running, committing:
		it.dirty = true
	case waiting:
		q.untime(it)
		it.state, it.lane = queued, in
		q.ready[in].push(it)
	case queued:
		if in < it.lane {
			q.ready[it.lane].remove(it)
			it.lane = in
			q.ready[in].push(it)
		}
	}
}

// wait puts an item aside until due, or until it is enqueued if due is zero.
func (q *queue[Obj]) wait(it *item[Obj], due time.Time) {
	it.state, it.due = waiting, due
	if !due.IsZero() {
		heap.Push(&q.timed, it)
	}
}

func (q *queue[Obj]) untime(it *item[Obj]) {
	if it.heapAt >= 0 {
		heap.Remove(&q.timed, it.heapAt)
	}
	it.due = time.Time{}
}

func (q *queue[Obj]) forget(it *item[Obj]) { delete(q.items, it.key) }

// wake enqueues what is due at now.
func (q *queue[Obj]) wake(now time.Time) {
	for len(q.timed) > 0 && !q.timed[0].due.After(now) {
		it := q.timed[0]
		it.force = true
		q.enqueue(it, laneRetry)
	}
}

// nextDue returns the earliest due time, or zero.
func (q *queue[Obj]) nextDue() time.Time {
	if len(q.timed) == 0 {
		return time.Time{}
	}
	return q.timed[0].due
}

// backlog is the number of changed items that are ready.
func (q *queue[Obj]) backlog() int { return q.ready[laneChange].length }

// pop takes the next ready item by the lanes' shares, or nil. It is then in
// state waiting, until the caller says otherwise.
func (q *queue[Obj]) pop() *item[Obj] {
	for range 2 { // the second time with fresh credit
		for l := range lanes {
			if it := q.ready[l].head; it != nil && q.credit[l] > 0 {
				q.credit[l]--
				q.ready[l].remove(it)
				it.state = waiting
				return it
			}
		}
		q.credit = shares
	}
	return nil
}

// dueHeap is a container/heap of waiting items by due time.
type dueHeap[Obj any] []*item[Obj]

func (h dueHeap[Obj]) Len() int           { return len(h) }
func (h dueHeap[Obj]) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

func (h dueHeap[Obj]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i, j
}

// Push implements heap.Interface.
func (h *dueHeap[Obj]) Push(x any) {
	it := x.(*item[Obj])
	it.heapAt = len(*h)
	*h = append(*h, it)
}

// Pop implements heap.Interface.
func (h *dueHeap[Obj]) Pop() any {
	old := *h
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	it.heapAt = -1
	return it
}
