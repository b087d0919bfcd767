package reconciler_test

import (
	"context"
	"iter"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// rowKind is a type of rows that tests of several types use: rows by value or by
// pointer.
type rowKind[Obj any] struct {
	of     func(row) Obj
	read   func(Obj) row
	schema statedb.Schema[Obj]
	byID   statedb.Index[Obj, string]
	status reconciler.StatusField[Obj]
}

var statusField = reconciler.StatusField[row]{Get: row.GetStatus, Set: row.WithStatus}

func rowsByValue() rowKind[row] {
	same := func(r row) row { return r }
	return rowKind[row]{of: same, read: same, schema: rowSchema(), byID: byID, status: statusField}
}

func rowsByPointer() rowKind[*row] {
	index := statedb.NewIndex("id", func(r *row) string { return r.ID })
	schema := rowSchema()
	return rowKind[*row]{
		of:   func(r row) *row { return &r },
		read: func(r *row) row { return *r },
		schema: statedb.Schema[*row]{
			Name: schema.Name, Primary: index,
			Equal: func(a, b *row) bool { return *a == *b },
			Amend: statedb.Amend[*row]{
				Carry: func(from, to *row) *row { r := schema.Amend.Carry(*from, *to); return &r },
				Reset: func(r *row) *row { reset := schema.Amend.Reset(*r); return &reset },
			},
		},
		byID: index, status: byPointer(statusField),
	}
}

// byPointer is a status field of rows by pointer.
func byPointer(field reconciler.StatusField[row]) reconciler.StatusField[*row] {
	return reconciler.StatusField[*row]{
		Get: func(r *row) reconciler.Status { return field.Get(*r) },
		Set: func(r *row, s reconciler.Status) *row { set := field.Set(*r, s); return &set },
	}
}

// targetOf makes a target of rows of a kind from one of rows by value.
type targetOf[Obj any] struct {
	reconciler.Target[row]
	kind rowKind[Obj]
}

func (t targetOf[Obj]) Update(ctx context.Context, txn statedb.ReadTxn, obj Obj) (reconciler.Result, error) {
	return t.Target.Update(ctx, txn, t.kind.read(obj))
}

func (t targetOf[Obj]) Delete(ctx context.Context, txn statedb.ReadTxn, obj Obj) error {
	return t.Target.Delete(ctx, txn, t.kind.read(obj))
}

func (t targetOf[Obj]) Prune(ctx context.Context, txn statedb.ReadTxn, desired iter.Seq2[Obj, statedb.Revision]) (int, error) {
	return t.Target.Prune(ctx, txn, func(yield func(row, statedb.Revision) bool) {
		for obj, rev := range desired {
			if !yield(t.kind.read(obj), rev) {
				return
			}
		}
	})
}

// observerOf is a targetOf that can observe.
type observerOf[Obj any] struct {
	targetOf[Obj]
	observer reconciler.Observer[row]
}

func (o observerOf[Obj]) Observe(ctx context.Context) iter.Seq2[Obj, error] {
	return func(yield func(Obj, error) bool) {
		for r, err := range o.observer.Observe(ctx) {
			if !yield(o.kind.of(r), err) {
				return
			}
		}
	}
}

// batcherOf is an observerOf that takes rows together.
type batcherOf[Obj any] struct {
	observerOf[Obj]
	batches reconciler.BatchTarget[row]
}

func (b batcherOf[Obj]) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []reconciler.BatchResult {
	return b.batches.UpdateBatch(ctx, txn, b.rows(objs))
}

func (b batcherOf[Obj]) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []error {
	return b.batches.DeleteBatch(ctx, txn, b.rows(objs))
}

func (b batcherOf[Obj]) rows(objs []Obj) []row {
	rows := make([]row, len(objs))
	for i, obj := range objs {
		rows[i] = b.kind.read(obj)
	}
	return rows
}

// ofKind returns what a target of rows by value is for rows of a kind. It can do
// what that one can.
func ofKind[Obj any](kind rowKind[Obj], target reconciler.Target[row]) reconciler.Target[Obj] {
	plain := targetOf[Obj]{target, kind}
	observer, observes := target.(reconciler.Observer[row])
	batcher, batches := target.(reconciler.BatchTarget[row])
	switch {
	case batches:
		return batcherOf[Obj]{observerOf[Obj]{plain, observer}, batcher}
	case observes:
		return observerOf[Obj]{plain, observer}
	default:
		return plain
	}
}
