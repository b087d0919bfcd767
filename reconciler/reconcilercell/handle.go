package reconcilercell

import (
	"context"
	"iter"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// handle is a reconciler of rows of any type. Rows are named by the text of their
// keys; no keys means all rows.
type handle interface {
	Name() string
	Summary(txn statedb.ReadTxn) reconciler.Summary
	Stats() reconciler.Stats
	FailureGroups() []reconciler.FailureGroup
	NotTried(txn statedb.ReadTxn, tries int) iter.Seq2[string, string]
	Explain(ctx context.Context, key string) (reconciler.Explanation, error)
	Forget(ctx context.Context, key string) error
	FullPass()
	Limits() reconciler.Limits
	SetLimits(limits reconciler.Limits) error
	Plan(ctx context.Context) (reconciler.Plan, error)
	Approve(ctx context.Context, id string) error

	table() string
	// withStatus returns the keys of the rows whose status is of a kind.
	withStatus(txn statedb.ReadTxn, kind reconciler.StatusKind) []string
	trigger(ctx context.Context, keys []string) (int, error)
	pause(ctx context.Context, keys []string, until time.Time) error
	resume(ctx context.Context, keys []string) error
}

// typed implements handle.
type typed[Obj any] struct {
	*reconciler.Reconciler[Obj]
	rows   *statedb.Table[Obj]
	status func(Obj) reconciler.Status
}

func (t typed[Obj]) table() string { return t.rows.Name() }

func (t typed[Obj]) withStatus(txn statedb.ReadTxn, kind reconciler.StatusKind) (keys []string) {
	for obj := range t.rows.All(txn) {
		if t.status(obj).Kind() == kind {
			keys = append(keys, t.rows.Key(obj))
		}
	}
	return keys
}

func (t typed[Obj]) trigger(ctx context.Context, keys []string) (int, error) {
	return t.Trigger(ctx, reconciler.Selector[Obj]{Keys: keys})
}

func (t typed[Obj]) pause(ctx context.Context, keys []string, until time.Time) error {
	return t.Pause(ctx, reconciler.Selector[Obj]{Keys: keys}, until)
}

func (t typed[Obj]) resume(ctx context.Context, keys []string) error {
	return t.Resume(ctx, reconciler.Selector[Obj]{Keys: keys})
}
