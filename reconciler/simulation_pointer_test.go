package reconciler_test

import (
	"context"
	"iter"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// runner is a reconciler, whatever its rows.
type runner interface {
	Run(ctx context.Context) error
	Seed(seed uint64)
	OnMove(fn func(from, to string))
	FullPass()
	Items() []string
	Limits() reconciler.Limits
	SetLimits(limits reconciler.Limits) error
	Stats() reconciler.Stats
	Summary(txn statedb.ReadTxn) reconciler.Summary
	Plan(ctx context.Context) (reconciler.Plan, error)
	Approve(ctx context.Context, id string) error
	Trigger(ctx context.Context, which reconciler.Selector[row]) (int, error)
	Pause(ctx context.Context, which reconciler.Selector[row], until time.Time) error
	Resume(ctx context.Context, which reconciler.Selector[row]) error
}

// pointerRunner is a reconciler of rows by pointer.
type pointerRunner struct {
	*reconciler.Reconciler[*row]
}

func selector(which reconciler.Selector[row]) reconciler.Selector[*row] {
	s := reconciler.Selector[*row]{Keys: which.Keys}
	if which.Match != nil {
		s.Match = func(r *row) bool { return which.Match(*r) }
	}
	return s
}

func (r pointerRunner) Trigger(ctx context.Context, which reconciler.Selector[row]) (int, error) {
	return r.Reconciler.Trigger(ctx, selector(which))
}

func (r pointerRunner) Pause(ctx context.Context, which reconciler.Selector[row], until time.Time) error {
	return r.Reconciler.Pause(ctx, selector(which), until)
}

func (r pointerRunner) Resume(ctx context.Context, which reconciler.Selector[row]) error {
	return r.Reconciler.Resume(ctx, selector(which))
}

// rowTable is what simulations and worlds do with a table.
type rowTable interface {
	statedb.TableMeta
	All(txn statedb.ReadTxn, opts ...statedb.ReadOption) iter.Seq2[row, statedb.Revision]
	Get(txn statedb.ReadTxn, q statedb.Query[row]) (row, statedb.Revision, bool)
	Sources(txn statedb.ReadTxn) []statedb.SourceState
	Revision(txn statedb.ReadTxn) statedb.Revision
	Insert(txn *statedb.WriteTxn, r row) (old row, replaced bool, err error)
	Delete(txn *statedb.WriteTxn, r row) (old row, deleted bool, err error)
	Amend(txn *statedb.WriteTxn, r row, revision statedb.Revision, fn func(row) row) (bool, error)
}

// pointerTable is a rowTable of rows by pointer.
type pointerTable struct {
	statedb.TableMeta
	of *statedb.RWTable[*row]
}

func newPointerTable(db *statedb.DB) pointerTable {
	schema := rowsByPointer().schema
	schema.Name = "pointers"
	t := must(statedb.NewTable(db, schema))
	return pointerTable{TableMeta: t, of: t}
}

func (t pointerTable) All(txn statedb.ReadTxn, _ ...statedb.ReadOption) iter.Seq2[row, statedb.Revision] {
	return func(yield func(row, statedb.Revision) bool) {
		for r, rev := range t.of.All(txn) {
			if !yield(*r, rev) {
				return
			}
		}
	}
}

func (t pointerTable) Get(txn statedb.ReadTxn, q statedb.Query[row]) (row, statedb.Revision, bool) {
	for r, rev := range t.All(txn) {
		if byID.Query(r.ID).Encoded() == q.Encoded() {
			return r, rev, true
		}
	}
	return row{}, 0, false
}

func (t pointerTable) Sources(txn statedb.ReadTxn) []statedb.SourceState { return t.of.Sources(txn) }

func (t pointerTable) Revision(txn statedb.ReadTxn) statedb.Revision { return t.of.Revision(txn) }

func (t pointerTable) Insert(txn *statedb.WriteTxn, r row) (old row, replaced bool, err error) {
	was, replaced, err := t.of.Insert(txn, &r)
	if replaced {
		old = *was
	}
	return old, replaced, err
}

func (t pointerTable) Delete(txn *statedb.WriteTxn, r row) (old row, deleted bool, err error) {
	was, deleted, err := t.of.Delete(txn, &r)
	if deleted {
		old = *was
	}
	return old, deleted, err
}

func (t pointerTable) Amend(txn *statedb.WriteTxn, r row, revision statedb.Revision, fn func(row) row) (bool, error) {
	return t.of.Amend(txn, &r, revision, func(current *row) *row {
		amended := fn(*current)
		return &amended
	})
}

// launchByPointer starts the reconciler of an actor whose rows are by pointer.
func (a *actor) launchByPointer() {
	kind := rowsByPointer()
	field := statusField
	if a.field != nil {
		field = *a.field
	}
	a.run(pointerRunner{must(reconciler.NewWithStatus(reconciler.Params[*row]{
		Name: a.name, DB: a.db, Table: a.table.(pointerTable).of, Target: ofKind(kind, a.kindOfTarget()), NotDone: a.notDone,
		Config: a.config, Health: a.health, Related: relatedRows(a, kind),
	}, byPointer(field)))})
}
