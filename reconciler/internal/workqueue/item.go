package workqueue

import (
	"fmt"
	"strings"
	"time"

	"github.com/statehive/statehive/internal/store"
)

// Item is a row that has something to be done, or to wait for, and is not in the round under
// way. The queue alone changes its stage.
type Item struct {
	Key   string       // encoded primary key
	Entry *store.Entry // the newest row that was seen: what a delete is given; nil if somebody asked for a key that had no row
	Wish
	Failures
	Reasons Reason    // why it is to be run: since it last ran
	Ran     Reason    // why it last ran
	Since   time.Time // when it was first queued, after it last ran
	Applied time.Time // when its last update ended well
	Refresh time.Time // when it is applied again, if nothing else makes it run before; zero: never
	Blocks  Blocks
	Noted   bool // it is, or is about to be, in the not-done table

	position
}

// Wish is what is to be done about an item.
type Wish struct {
	Deleting bool // the row is gone from the table; Delete has not succeeded yet
	Orphan   bool // deleting what the target has, and the table had not when the full pass looked
	Force    bool // run although the row's status says that it is done
	FullPass bool // the full pass under way waits for it
	Dirty    bool // changed while it was in hand
	Differs  bool // it differed from what is observed when it was compared the last time
	Present  bool // the feed's last word is that the row is there
}

// Failures are what failed since the item was last done.
type Failures struct {
	Attempts int // failed ones in a row
	Err      error
	Tries    []Attempt // the last ones, if some failed
}

// Blocks is which revisions an item keeps from being reconciled.
type Blocks struct {
	set  bool
	from store.Revision
}

// position is where an item is: its stage, and its places in the queue.
type position struct {
	stage          Stage
	class          Class     // when queued, or when it was handed to a worker
	due            time.Time // when it ends to wait by itself; zero: it does not
	detail         string    // more on what it waits for
	heapAt         int       // its place among those that are timed, or -1
	previous, next *Item
}

// Stage returns where the item is.
func (it *Item) Stage() Stage { return it.stage }

// Class returns the priority class that it is ready in, or was when a worker took it.
func (it *Item) Class() Class { return it.class }

// Due returns when it ends to wait by itself, or zero.
func (it *Item) Due() time.Time { return it.due }

// Detail says more about what it waits for.
func (it *Item) Detail() string { return it.detail }

// NotDone reports whether the item is to be listed as not done: something has failed, or holds
// it, or it is to run again.
func (it *Item) NotDone() bool { return it.Err != nil || it.stage.Shown() }

// Block notes that the item is not done with a revision, unless it is known not to be done
// with an earlier one.
func (it *Item) Block(since store.Revision) {
	if !it.Blocks.set {
		it.Blocks = Blocks{true, since}
	}
}

// Unblock notes that the item is done with all revisions.
func (it *Item) Unblock() { it.Blocks = Blocks{} }

// Blocking returns the first revision that the item is not done with, if there is one.
func (it *Item) Blocking() (since store.Revision, blocking bool) {
	return it.Blocks.from, it.Blocks.set
}

// BlocksRevision reports whether the item is not done with a revision.
func (it *Item) BlocksRevision(revision store.Revision) bool {
	return it.Blocks.set && it.Blocks.from <= revision
}

// Before returns how many items of its class come before it.
func (it *Item) Before() (n int) {
	for p := it.previous; p != nil; p = p.previous {
		n++
	}
	return n
}

// Attempt is an operation that failed.
type Attempt struct {
	At        time.Time     `json:"at"`
	Took      time.Duration `json:"took"` // in nanoseconds
	Operation string        `json:"operation"`
	Reasons   string        `json:"reasons"` // why it ran
	Error     string        `json:"error"`
}

// String returns the attempt in one line.
func (a Attempt) String() string {
	text := fmt.Sprintf("%s %s took %v", a.At.Format(time.RFC3339), a.Operation, a.Took.Round(time.Microsecond))
	if a.Reasons != "" {
		text += " (" + strings.ReplaceAll(a.Reasons, ",", ", ") + ")"
	}
	return text + ": " + a.Error
}

// keptAttempts is how many are kept of a row that is not done.
const keptAttempts = 5

// Remember keeps an attempt among the last ones.
func (f *Failures) Remember(a Attempt) {
	if len(f.Tries) == keptAttempts {
		f.Tries = f.Tries[1:]
	}
	f.Tries = append(f.Tries, a)
}

// Preview makes an item that is in no queue what it would be in a stage.
func (it *Item) Preview(stage Stage, due time.Time) { it.stage, it.due = stage, due }
