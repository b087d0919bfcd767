package pool

import (
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Kind is the kind of an operation.
type Kind uint8

// The kinds of operations.
const (
	Update Kind = iota
	Delete
	Observe // list what exists
	Prune   // remove what is not desired
)

// String returns the name of the operation.
func (k Kind) String() string { return [...]string{"update", "delete", "observe", "prune"}[k] }

// Question reports whether the operation is on the whole target and not on a row.
func (k Kind) Question() bool { return k == Observe || k == Prune }

// Task is an operation on the target and its outcome.
type Task struct {
	Kind  Kind
	Was   status.Kind // of the row
	Full  bool        // belongs to the full pass, not to a change
	Open  bool        // counts as open in the round
	Item  *workqueue.Item
	Entry *store.Entry // the row, or its last version for a delete
	// GivenBack reports whether the task was skipped and handled before its batch ended.
	GivenBack bool
	Outcome
}

// Outcome is the outcome of a task.
type Outcome struct {
	Newer    *Newer // the row that was used, if newer than Entry
	Result   Result
	Err      error
	Ended    time.Time // when the operation ended
	Took     time.Duration
	Delay    time.Duration // the backoff, once it is known
	Skipped  bool          // it did not run, because Entry was no longer the newest row
	Outdated bool          // the row has a newer spec or is gone: no status was written
	Stuck    bool          // it is still running long after its deadline
}

// Newer is a newer version of the row of a task.
type Newer struct {
	Was   status.Kind
	Entry *store.Entry
}

// Newest returns the row to work on.
func (t *Task) Newest() *store.Entry {
	if t.Newer != nil {
		return t.Newer.Entry
	}
	return t.Entry
}

// Renewed returns the task for the row that it used, without its outcome.
func (t *Task) Renewed() Task {
	// The outcome is not even read: a worker that is stuck may be writing it.
	renewed := Task{Kind: t.Kind, Was: t.Was, Full: t.Full, Open: t.Open, Item: t.Item, Entry: t.Entry, GivenBack: t.GivenBack}
	if n := t.Newer; n != nil {
		renewed.Was, renewed.Entry = n.Was, n.Entry
		renewed.Full = renewed.Full && renewed.Was != status.Pending
	}
	return renewed
}

// Renew sets Entry to the row that the task used.
func (t *Task) Renew() {
	outcome := t.Outcome
	*t = t.Renewed()
	t.Outcome = outcome
	t.Newer = nil
}

// Result is the outcome of a successful Update. The zero value is "done".
type Result struct {
	// Changed reports whether Update changed anything. In a full pass it means that the target
	// was out of sync.
	Changed bool
	// Again, if positive, runs Update once more after this time.
	Again time.Duration
}

// BatchResult is the outcome of one row of UpdateBatch.
type BatchResult struct {
	Result Result
	Err    error
}

// Answer is the outcome of Observe or Prune.
type Answer struct {
	Observed []*store.Entry // of Observe
	Pruned   int            // of Prune
}
