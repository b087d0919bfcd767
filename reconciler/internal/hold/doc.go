// Package hold has the reasons not to run an operation that is pending: each is a [Policy], in a file of its own, and knows nothing of the others. A new
// reason is a new file, and a line in the engine's list of policies.
//
//   - pause.go: someone has paused the row.
//   - drift.go: the row differs from what is observed, and its repair must wait.
//   - dependency.go: a row that it depends on is not done.
//   - order.go: a row that depends on it is not deleted yet.
//   - limit.go: too many rows would be changed at once.
//
// Two more hold no single row, and so are no policies: rate.go, which holds everything, and
// backoff.go, which decides when an operation that failed is tried again.
//
// A policy decides and remembers; it moves no item. Whoever asks it, the goroutine that owns
// the queue, puts the item aside in the stage that the policy names, and makes it ready again
// when its time comes or the policy says that what held it has ended. The policy is asked
// again then. Rows are entries of package internal/store: no policy knows their type.
package hold

import (
	"log/slog"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Policy is a reason not to run an operation now. It belongs to the goroutine that owns the
// queue, but for the methods that say otherwise.
type Policy interface {
	// Holds reports whether an operation on a row of a snapshot must not run now, and why.
	// It may be asked again and again about the same item.
	Holds(t *pool.Task, txn store.ReadTxn, now time.Time) (why Reason, held bool)
}

// Reason is why an operation is held.
type Reason struct {
	Stage workqueue.Stage // in which its item waits
	Text  string          // what it waits for
	Until time.Time       // when to ask again; zero: when it is released
}

// Owner is the reconciler whose operations a policy holds.
type Owner struct {
	Name   string
	DB     *store.DB
	Table  *store.Table
	Logger *slog.Logger
}

// newest returns a row as it is now, or nil.
func (o *Owner) newest(key string) (store.ReadTxn, *store.Entry) {
	txn := o.DB.ReadTxn()
	return txn, o.Table.FindKey(txn, []byte(key))
}
