package engine

import (
	"time"

	"github.com/statehive/statehive/internal/duetime"
	"github.com/statehive/statehive/internal/store"
)

// The states of an item.
type itemState uint8

const (
	queued     itemState = iota // in a lane
	running                     // in the hands of a worker
	committing                  // its outcome waits for the status commit
	waiting                     // for its due time, for the end of a hold, or for a new spec
)

// item is a row that has something to be done, or to wait for, and is not in the
// round under way.
type item struct {
	key   string       // encoded primary key
	entry *store.Entry // the newest row that was seen: what a delete is given; nil if somebody asked for a key that had no row

	state      itemState
	lane       lane // when queued
	hold       hold // when waiting
	deleting   bool // the row is gone from the table; Delete has not succeeded yet
	force      bool // run although the row's status says that it is done
	full       bool // the full pass under way waits for it
	surplus    bool // deleting what the target has, and the table had not when the full pass looked
	dirty      bool // changed while running or committing
	stuck      bool // running, but given up
	debouncing bool // waiting for the row to stay as it is
	settling   bool // waiting until it can be seen what its last operation has done
	drifted    bool // it differed from what is observed when it was compared the last time
	noted      bool // the ledger has been told of it
	owing      bool // not done, with what the table said at the revision owed
	fed        bool // the feed's last word is that the row is there

	owed store.Revision

	reasons  reason // since it last ran
	ran      reason // why it last ran
	attempts int    // failed ones in a row
	err      error
	due      time.Time // when waiting; zero: no time
	since    time.Time // when it was first queued, after it last ran
	worked   time.Time // when its last update ended well, if rows are observed
	heapAt   int       // place among those that are timed, or -1
	at       string    // its stage, if onMove is to be told
	waitsFor string    // more on why it is held
	tries    []Attempt // the last ones, if some failed

	brake     *brake    // what counts it as a change; nil: nothing does
	allowance allowance // of the brake
	plan      uint64    // the first that shows it

	previous, next *item
}

// queue holds the items. It is used by one goroutine.
type queue struct {
	items  map[string]*item
	ready  [lanes]fifo
	credit [lanes]int
	timed  duetime.Heap[*item]
	held   [holds]int // items that wait, by what holds them
	// overtaken: something that a worker has, and perhaps has not begun, is wanted
	// sooner than its lane says.
	overtaken bool
	onMove    func(from, to string) // nil but in tests
}

func newQueue() *queue {
	return &queue{
		items: map[string]*item{}, credit: shares,
		timed: duetime.New(func(it *item) time.Time { return it.due }, func(it *item) *int { return &it.heapAt }),
	}
}

// get returns the item of a row, making one if there is none. A new one is in
// state waiting, without a due time.
func (q *queue) get(key string) *item {
	it := q.items[key]
	if it == nil {
		it = &item{key: key, state: waiting, heapAt: -1, at: stageRest}
		q.items[key] = it
	}
	return it
}

// enqueue makes an item ready, whatever it waits for: the earliest reason wins.
// One that is running or committing is marked as dirty instead. One that is
// ready moves up if the new reason is a better one: a key is in the lanes at
// most once.
func (q *queue) enqueue(it *item, in lane, why reason) {
	it.reasons |= why
	switch it.state {
	case running, committing:
		it.dirty = true
		q.overtaken = q.overtaken || in < it.lane
	case waiting:
		q.unwait(it)
		it.state, it.lane = queued, in
		q.ready[in].push(it)
		q.moved(it)
	case queued:
		if in < it.lane {
			q.ready[it.lane].remove(it)
			it.lane = in
			q.ready[in].push(it)
		}
	}
}

// putBack makes an item the first of its lane again, after it was popped for nothing.
func (q *queue) putBack(it *item) {
	it.state = queued
	q.ready[it.lane].pushFront(it)
	q.moved(it)
}

// wait puts an item aside until due, or until it is enqueued if due is zero.
func (q *queue) wait(it *item, due time.Time) {
	q.unwait(it)
	it.state, it.due = waiting, due
	if !due.IsZero() {
		q.timed.Add(it)
	}
}

// park puts an item aside until what holds it ends.
func (q *queue) park(it *item, why hold, waitsFor string) {
	q.wait(it, time.Time{})
	q.setHold(it, why, waitsFor)
	q.moved(it)
}

func (q *queue) setHold(it *item, why hold, waitsFor string) {
	q.held[it.hold]--
	q.held[why]++
	it.hold, it.waitsFor = why, waitsFor
}

func (q *queue) unwait(it *item) {
	q.timed.Remove(it)
	it.due, it.debouncing, it.settling = time.Time{}, false, false
	q.setHold(it, holdNone, "")
}

// quiet says that an item waits for nothing that anybody should know.
func (it *item) quiet() bool { return it.due.IsZero() || it.debouncing || it.settling }

func (q *queue) forget(it *item) {
	delete(q.items, it.key)
	q.move(it.at, stageRest)
}

// wake enqueues what is due at now.
func (q *queue) wake(now time.Time) {
	for it, waits := q.timed.First(); waits && !it.due.After(now); it, waits = q.timed.First() {
		if it.since.IsZero() {
			it.since = it.due
		}
		switch {
		case it.debouncing:
			q.enqueue(it, laneChange, 0)
		case it.settling || it.hold == holdDrift:
			it.force = true
			q.enqueue(it, laneRetry, reasonDrift)
		case it.err != nil:
			it.force = true
			q.enqueue(it, laneRetry, reasonRetry)
		default:
			it.force = true
			q.enqueue(it, laneRetry, reasonAgain)
		}
	}
}

// nextDue returns the earliest due time, or zero.
func (q *queue) nextDue() time.Time {
	if it, waits := q.timed.First(); waits {
		return it.due
	}
	return time.Time{}
}

// backlog is the number of changed items that are ready.
func (q *queue) backlog() int { return q.ready[laneChange].length }

// turn returns the lane whose turn it is, and how many operations it may have
// before it is another one's. The changed rows that are no items are more.
func (q *queue) turn(more int) (turn lane, n int) {
	length := func(l lane) int {
		if l == laneChange {
			return q.ready[l].length + more
		}
		return q.ready[l].length
	}
	total := 0
	for l := range lanes {
		total += length(l)
	}
	if total == 0 {
		return 0, 0
	}
	for range 2 { // the second time with fresh credit
		for l := range lanes {
			switch n := length(l); {
			case n == 0 || q.credit[l] <= 0:
			case n == total:
				return l, n // nobody else waits
			default:
				return l, min(n, q.credit[l])
			}
		}
		q.credit = shares
	}
	return 0, 0
}

// spend takes operations off the credit of a lane, and returns how many it had
// credit for.
func (q *queue) spend(l lane, n int) (spent int) {
	spent = min(n, q.credit[l])
	q.credit[l] -= spent
	return spent
}

// pop takes the first item of a lane, or nil. It is then in state waiting, until
// the caller says otherwise.
func (q *queue) pop(from lane) *item {
	it := q.ready[from].head
	if it == nil {
		return nil
	}
	q.ready[from].remove(it)
	it.state = waiting
	return it
}
