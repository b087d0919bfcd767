// Package hold has the reasons not to run a pending operation. Each reason is a [Policy] in a
// file of its own and knows nothing of the others. A new reason is a new file and a line in
// the engine's list of policies.
//
//   - pause.go: the row is paused.
//   - drift.go: the row has drifted, and its repair must wait.
//   - dependency.go: a row that it depends on is not done.
//   - order.go: a row that depends on it is not deleted yet, or one that may be in its place is not applied yet.
//   - limit.go: too many rows would be changed at once, or would lack rows that they depend on.
//
// Two more files are not policies, because they do not hold single rows: rate.go holds all
// operations, and backoff.go decides when a failed operation is retried.
//
// A policy decides and keeps records; it does not move items. Its caller, the goroutine that
// owns the queue, moves a held item to the stage that the policy returns, and makes the item
// ready again when it is due or when the policy reports that the reason has ended. Then it
// asks the policy again. Rows are entries of package internal/store: no policy knows their
// type.
package hold

import (
	"log/slog"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Policy is a reason not to run an operation now. Unless documented otherwise, its methods
// must be called from the goroutine that owns the queue.
type Policy interface {
	// Holds reports whether an operation on a row of a snapshot must not run now, and why.
	// It may be called repeatedly for the same item.
	Holds(t *pool.Task, txn store.ReadTxn, now time.Time) (why Reason, held bool)
}

// Reason is why an operation is held.
type Reason struct {
	Stage workqueue.Stage // the stage to move the item to
	Text  string          // what the item waits for
	Until time.Time       // when to ask the policy again; zero: when the item is released
}

// Owner is the reconciler whose operations a policy holds.
type Owner struct {
	Name   string
	DB     *store.DB
	Table  *store.Table
	Logger *slog.Logger
}

// newest returns the newest version of a row, or nil, and the snapshot it is from.
func (o *Owner) newest(key string) (store.ReadTxn, *store.Entry) {
	txn := o.DB.ReadTxn()
	return txn, o.Table.FindKey(txn, []byte(key))
}
