package workqueue

import (
	"fmt"
	"strings"
	"time"

	"github.com/statehive/statehive/internal/store"
)

// Item is a row that has work pending or waits for something, and is not in the current round. Only
// the queue changes its stage.
type Item struct {
	Key   string       // encoded primary key
	Entry *store.Entry // the newest version seen, which is passed to Delete; nil if a key without a row was triggered
	Wish
	Failures
	Reasons   Reason    // why it has to run, collected since it last ran
	Ran       Reason    // why it last ran
	Since     time.Time // when it was first queued, after it last ran
	Applied   time.Time // when its last update succeeded
	DeletedAt time.Time // when its row was found to be gone
	Refresh   time.Time // when to apply it again; zero: never
	Blocks    Blocks
	Noted     bool // it is in the not-done table, or is about to be

	position
}

// Wish describes the operation that an item needs.
type Wish struct {
	Deleting bool // the row is gone from the table; Delete has not succeeded yet
	AtOnce   bool // the delete need not wait for updates
	Orphan   bool // the delete is of an object found in the target but not in the table
	Force    bool // run even if the status is done
	FullPass bool // the current full pass waits for it
	Dirty    bool // changed while a worker had it
	Differs  bool // it differed from the observed state in the last comparison
	Present  bool // the last record of the feed was not a delete
}

// Failures are the failures since the item was last done.
type Failures struct {
	Attempts int // consecutive failures
	Err      error
	Tries    []Attempt // the most recent ones
}

// Blocks describes the revisions that are not reconciled because of an item.
type Blocks struct {
	set  bool
	from store.Revision
}

// position is the stage of an item and its positions in the queue.
type position struct {
	stage          Stage
	class          Class     // when queued, or when it was handed to a worker
	due            time.Time // when its wait ends by itself; zero: never
	detail         string    // details on what it waits for
	heapAt         int       // its index among the timed items, or -1
	previous, next *Item
}

// Stage returns the stage of the item.
func (it *Item) Stage() Stage { return it.stage }

// Class returns the priority class of the item while it is ready or a worker has it.
func (it *Item) Class() Class { return it.class }

// Due returns when its wait ends by itself, or zero.
func (it *Item) Due() time.Time { return it.due }

// Detail returns details on what it waits for.
func (it *Item) Detail() string { return it.detail }

// NotDone reports whether to list the item as not done: it has failed, is held, or has to run again.
func (it *Item) NotDone() bool { return it.Err != nil || it.stage.Shown() }

// Block marks the item as pending since a revision, unless it has been pending since an earlier one.
func (it *Item) Block(since store.Revision) {
	if !it.Blocks.set {
		it.Blocks = Blocks{true, since}
	}
}

// Unblock marks the item as not pending.
func (it *Item) Unblock() { it.Blocks = Blocks{} }

// Blocking returns the revision that the item has been pending since, if it is pending.
func (it *Item) Blocking() (since store.Revision, blocking bool) {
	return it.Blocks.from, it.Blocks.set
}

// BlocksRevision reports whether the item has been pending since a revision or an earlier one.
func (it *Item) BlocksRevision(revision store.Revision) bool {
	return it.Blocks.set && it.Blocks.from <= revision
}

// Before returns the number of items of its class that come before it.
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

// keptAttempts is how many failed attempts of an item are kept.
const keptAttempts = 5

// Remember adds an attempt, dropping the oldest one if necessary.
func (f *Failures) Remember(a Attempt) {
	if len(f.Tries) == keptAttempts {
		f.Tries = f.Tries[1:]
	}
	f.Tries = append(f.Tries, a)
}

// Preview sets the stage of an item that is not in a queue.
func (it *Item) Preview(stage Stage, due time.Time) { it.stage, it.due = stage, due }
