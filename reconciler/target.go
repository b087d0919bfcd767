package reconciler

import (
	"context"
	"iter"
	"time"

	"github.com/statehive/statehive/statedb"
)

// Target brings rows about in the outside world. All operations are idempotent:
// they may be repeated, with the same row or a newer one, also after a crash
// halfway. They are level-based: obj is the newest row, txn the snapshot it is
// from, and values in between may never be seen. A reconciler never runs two
// operations on one row at a time.
//
// ctx ends when the operation has taken too long or the reconciler stops;
// operations must then return soon. Errors are retried with backoff, unless
// wrapped by [Terminal] or [RetryAfter]. A panic counts as an error.
type Target[Obj any] interface {
	// Init prepares the target. It is called before any other operation and
	// repeated with backoff until it succeeds.
	Init(ctx context.Context) error
	// Update makes the outside world be what obj says.
	Update(ctx context.Context, txn statedb.ReadTxn, obj Obj) (Result, error)
	// Delete removes what obj stands for; its absence is a success. obj is the
	// last row the table had, or one that Observe returned.
	Delete(ctx context.Context, txn statedb.ReadTxn, obj Obj) error
	// Prune removes everything of ours that is not in desired and returns how
	// many things that were. It is not called when the target implements
	// [Observer].
	Prune(ctx context.Context, txn statedb.ReadTxn, desired iter.Seq2[Obj, statedb.Revision]) (pruned int, err error)
}

// Observer is a [Target] that can list what is there. The reconciler then finds
// the surplus by itself and removes it through Delete.
type Observer[Obj any] interface {
	// Observe yields everything that is there and ours. An error means that the
	// listing is not whole: nothing is removed because of it.
	Observe(ctx context.Context) iter.Seq2[Obj, error]
}

// Differ is a [Target] that can say what Update would change, without a write.
type Differ[Obj any] interface {
	// Diff returns no change when obj is in sync.
	Diff(ctx context.Context, txn statedb.ReadTxn, obj Obj) ([]Change, error)
}

// BatchTarget is a [Target] that can work on several rows in one go, such as in
// one request to the kernel. The methods get rows of one kind of operation, each
// once, and return an outcome for each, in their order; ctx ends when the whole has
// taken too long. A row that failed is tried again by itself, through Update or
// Delete: so one row that makes the rest fail, as by a panic, is found and fails
// alone. So are all rows of a batch that does not return as many outcomes as there
// are rows. objs are the target's only until it returns.
type BatchTarget[Obj any] interface {
	Target[Obj]
	// UpdateBatch is Update of each row.
	UpdateBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []BatchResult
	// DeleteBatch is Delete of each row: nil where it succeeded.
	DeleteBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []error
}

// BatchResult is the outcome of one row of UpdateBatch.
type BatchResult struct {
	Result Result
	Err    error
}

// Change is one field that differs between what is and what is wanted.
type Change struct {
	Field string `json:"field"`
	Is    string `json:"is"`   // empty: absent
	Want  string `json:"want"` // empty: to be removed
}

// Result is the outcome of a successful Update. The zero value is "done".
type Result struct {
	// Changed: something had to be changed. In a full pass it means that the
	// target was out of sync.
	Changed bool
	// Again, if positive, runs Update once more after this time.
	Again time.Duration
}
