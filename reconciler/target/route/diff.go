package route

import (
	"context"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, txn statedb.ReadTxn, row Route) ([]reconciler.Change, error) {
	result := t.DiffBatch(ctx, txn, []Route{row})[0]
	return result.Changes, result.Err
}

// DiffBatch implements reconciler.BatchDiffer.
func (t *Target) DiffBatch(ctx context.Context, _ statedb.ReadTxn, rows []Route) []reconciler.DiffResult {
	d := comparison{target: t, began: time.Now(), keys: keysOf(rows), known: t.mirror.Load().View(ctx), indexes: t.indexes()}
	results := make([]reconciler.DiffResult, len(rows))
	for i, row := range rows {
		results[i].Changes, results[i].Err = d.diff(ctx, row)
	}
	return results
}

// comparison compares several rows with the existing routes.
type comparison struct {
	target  *Target
	began   time.Time
	keys    []Key // of the rows
	known   mirror.View[Seen]
	indexes *rtnl.Indexes
}

// diff returns the changes that Update would make for a row.
func (d comparison) diff(ctx context.Context, row Route) ([]reconciler.Change, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, err := d.target.resolve(ctx, row, d.indexes)
	if err != nil {
		return nil, err
	}
	is, seen := d.known.Get(SeenByKey.Query(w.row.Key()))
	switch {
	case seen && is.Behind:
		return d.listed(ctx, w)
	case seen && w.doubt(is) != nil:
		return nil, w.doubt(is)
	case seen && !w.matches(is):
		return w.differences(is, true), nil
	case seen && !w.row.Adopt:
		return nil, nil
	}
	chosen, found, hidden := d.target.chosen(ctx, w.row.Key())
	switch {
	case found && chosen.protocol == Protocol && w.matches(chosen.Seen), seen && !found:
		return nil, nil
	case found && chosen.protocol != Protocol && d.known.Reliable():
		return d.target.foreignChanges(ctx, w, chosen)
	case d.known.Reliable() && !hidden:
		return w.differences(Seen{}, false), nil
	}
	return d.listed(ctx, w)
}

// listed compares a row with a listing of its table, which all rows share.
func (d comparison) listed(ctx context.Context, w wanted) ([]reconciler.Change, error) {
	s, err := d.target.look(ctx, w, d.began, d.keys...)
	if err != nil || w.isMetBy(s) {
		return nil, err
	}
	switch {
	case len(s.foreign) > 0:
		return d.target.foreignChanges(ctx, w, s.foreign[0])
	case len(s.ours) == 0:
		return w.differences(Seen{}, false), nil
	}
	return w.differences(d.target.named(ctx, s.ours[0].Seen), true), nil
}

// foreignChanges returns the changes to somebody else's route with the key of a row, if the
// row takes it over.
func (t *Target) foreignChanges(ctx context.Context, w wanted, holder kernelRoute) ([]reconciler.Change, error) {
	if !w.row.Adopt {
		return nil, t.foreignError(ctx, w.row, holder)
	}
	protocol := reconciler.Change{Field: "protocol", Is: rtnl.Protocol(holder.protocol).String(), Want: rtnl.Ours.String()}
	return append([]reconciler.Change{protocol}, w.differences(t.named(ctx, holder.Seen), true)...), nil
}
