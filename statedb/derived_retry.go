package statedb

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// failure is a key of a derived table whose row could not be computed or written.
type failure[Key any] struct {
	encoded  string
	key      Key
	err      error
	attempts int // since an input last affected the key
	due      time.Time
	place    int // in the heap
}

// failures are the keys that have to be tried again.
type failures[Key any] struct {
	byKey map[string]*failure[Key]
	byDue dueHeap[Key]
	shown *failure[Key] // the one that speaks for all
	pause backoff
}

// add notes that an attempt has failed.
func (f *failures[Key]) add(encoded string, key Key, err error, now time.Time) {
	failed, again := f.byKey[encoded]
	if !again {
		failed = &failure[Key]{encoded: encoded, key: key}
		f.byKey[encoded] = failed
		heap.Push(&f.byDue, failed)
	}
	failed.err = err
	failed.attempts++
	failed.due = now.Add(f.pause.after(failed.attempts))
	heap.Fix(&f.byDue, failed.place)
}

func (f *failures[Key]) remove(encoded string) {
	if failed := f.byKey[encoded]; failed != nil {
		heap.Remove(&f.byDue, failed.place)
		delete(f.byKey, encoded)
	}
}

// affected begins the backoff of a key anew.
func (f *failures[Key]) affected(encoded string) {
	if failed := f.byKey[encoded]; failed != nil {
		failed.attempts = 0
	}
}

// addDue adds the keys to be tried again now. Rows that share unique keys come
// all at once: swaps only work together.
func (f *failures[Key]) addDue(to map[string]Key, now time.Time) {
	clash := false
	for len(f.byDue) > 0 && !f.byDue[0].due.After(now) {
		failed := f.byDue[0]
		to[failed.encoded] = failed.key
		clash = clash || errors.Is(failed.err, ErrNotUnique)
		failed.due = now.Add(f.pause.max) // the attempt will set it
		heap.Fix(&f.byDue, 0)
	}
	if !clash {
		return
	}
	for encoded, failed := range f.byKey {
		if errors.Is(failed.err, ErrNotUnique) {
			to[encoded] = failed.key
		}
	}
}

// reason says what is wrong, or nothing. It names the same row for as long as
// that fails.
func (f *failures[Key]) reason() string {
	if len(f.byDue) == 0 {
		f.shown = nil
		return ""
	}
	if f.shown == nil || f.byKey[f.shown.encoded] != f.shown {
		f.shown = f.byDue[0]
	}
	if more := len(f.byDue) - 1; more > 0 {
		return fmt.Sprintf("%v (and %d more)", f.shown.err, more)
	}
	return f.shown.err.Error()
}

func (f *failures[Key]) next() (due time.Time, waiting bool) {
	if len(f.byDue) == 0 {
		return time.Time{}, false
	}
	return f.byDue[0].due, true
}

// backoff is a pause that doubles with each attempt.
type backoff struct{ min, max time.Duration }

func (b backoff) after(attempts int) time.Duration {
	d := min(b.min, b.max)
	for range attempts - 1 {
		if d >= b.max/2 {
			d = b.max
			break
		}
		d *= 2
	}
	const part = 0.2
	spread := time.Duration((2*rand.Float64() - 1) * part * float64(d))
	return d + min(spread, math.MaxInt64-d)
}

// dueHeap is a heap of failures, the first one to be tried again at the top.
type dueHeap[Key any] []*failure[Key]

func (h dueHeap[Key]) Len() int           { return len(h) }
func (h dueHeap[Key]) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap[Key]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *dueHeap[Key]) Push(x any) {
	failed, ok := x.(*failure[Key])
	if !ok {
		return
	}
	failed.place = len(*h)
	*h = append(*h, failed)
}

func (h *dueHeap[Key]) Pop() any {
	last := len(*h) - 1
	failed := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return failed
}
