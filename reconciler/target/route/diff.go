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
	d := comparison{target: t, began: time.Now(), known: t.mirror.Load().View(ctx), indexes: t.indexes()}
	results := make([]reconciler.DiffResult, len(rows))
	for i, row := range rows {
		results[i].Changes, results[i].Err = d.diff(ctx, row)
	}
	return results
}

// comparison is of rows that are compared together, with what there is.
type comparison struct {
	target  *Target
	began   time.Time
	known   mirror.View[Seen]
	indexes *rtnl.Indexes
}

// diff returns what Update would change of a row.
func (d comparison) diff(ctx context.Context, row Route) ([]reconciler.Change, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, err := d.target.resolve(ctx, row, d.indexes)
	if err != nil {
		return nil, err
	}
	if is, found := d.known.Get(SeenByKey.Query(w.row.Key())); found && w.matches(is) {
		return nil, nil
	} else if found {
		return w.differences(is, true), nil
	}
	chosen, found := d.target.chosen(ctx, w)
	switch {
	case found && chosen.protocol == Protocol && w.matches(chosen.Seen):
		return nil, nil
	case found && chosen.protocol != Protocol && d.known.Reliable():
		return nil, d.target.foreignError(ctx, w.row, chosen)
	case d.known.Reliable() && !w.row.Key().Destination.Addr().IsUnspecified(): // the kernel tells nothing of those
		return w.differences(Seen{}, false), nil
	}
	return d.listed(ctx, w)
}

// listed compares a row with a listing of its table, which all rows share.
func (d comparison) listed(ctx context.Context, w wanted) ([]reconciler.Change, error) {
	s, err := d.target.look(ctx, w, d.began)
	if err != nil || w.isMetBy(s) {
		return nil, err
	}
	if len(s.ours) == 0 {
		return w.differences(Seen{}, false), nil
	}
	is := s.ours[0].Seen
	if is.index > 0 {
		is.Device = d.target.conn.LinkName(ctx, is.index)
	}
	return w.differences(is, true), nil
}
