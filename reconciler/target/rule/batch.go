package rule

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// updates applies several rows together. Each step sends the requests of all rows in a few
// batches: rules are added, rules that turn out to exist are compared with their rows, and
// rules that differ are replaced.
type updates struct {
	target  *Target
	ctx     context.Context //nolint:containedctx // of one call of UpdateBatch
	rows    []Rule          // normalized
	results []reconciler.BatchResult

	add     []int // rows, by their place
	look    []int
	replace []replacement
}

// replacement is a row and the rules that it replaces.
type replacement struct {
	at  int
	old []Seen
}

// UpdateBatch implements reconciler.BatchTarget.
func (t *Target) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, rows []Rule) []reconciler.BatchResult {
	u := &updates{target: t, ctx: ctx, rows: make([]Rule, len(rows)), results: make([]reconciler.BatchResult, len(rows))}
	var at []int
	for i, row := range rows {
		var err error
		if u.rows[i], err = row.Normalized(); err != nil {
			u.results[i].Err = reconciler.Terminal(err)
			continue
		}
		if u.results[i].Err = t.checkDevices(txn, u.rows[i]); u.results[i].Err == nil {
			at = append(at, i)
		}
	}
	u.compare(at, t.mirror.Load().View(ctx), func(at int) { u.add = append(u.add, at) })
	u.finish()
	return u.results
}

// finish sends the requests that the comparison has found necessary.
func (u *updates) finish() {
	u.addAbsent()
	if len(u.look) > 0 {
		view := u.target.mirror.Load().Settled(u.ctx)
		u.compare(u.look, view, func(at int) { u.replace = append(u.replace, replacement{at: at}) })
	}
	u.replaceOld()
}

// compare compares rows with the existing rules. It calls absent for rows that have no rule;
// rules that differ from their rows have to be replaced.
func (u *updates) compare(rows []int, view mirror.View[Seen], absent func(at int)) {
	there, err := u.target.rules(u.ctx, view)
	if err = errors.Join(err, u.ctx.Err()); err != nil {
		for _, at := range rows {
			u.fail(at, "look up", err)
		}
		return
	}
	for _, at := range rows {
		c := u.rows[at].compare(there(u.rows[at].Key()))
		if u.results[at].Err = c.check(); u.results[at].Err != nil {
			continue
		}
		switch {
		case len(c.steps) == 0:
		case len(c.old) == 0:
			absent(at)
		default:
			u.replace = append(u.replace, replacement{at, c.old})
		}
	}
}

// fail records the error of a row that could not be applied.
func (u *updates) fail(at int, verb string, err error) {
	u.results[at].Err = fmt.Errorf("%s rule %s: %w", verb, u.rows[at].seen().describe(), err)
}

// addAbsent adds rules, unless they exist.
func (u *updates) addAbsent() {
	requests := make([]rtnl.Request, len(u.add))
	for n, at := range u.add {
		requests[n] = u.rows[at].seen().addition(unix.NLM_F_EXCL)
	}
	for n, err := range u.target.conn.Execute(u.ctx, requests) {
		switch at := u.add[n]; {
		case err == nil:
			u.results[at].Result.Changed = true
		case errors.Is(err, syscall.EEXIST):
			u.look = append(u.look, at)
		default:
			u.fail(at, "add", err)
		}
	}
}

// replaceOld adds rules after the rules that they replace, and then removes the old rules in
// their order. So a rule exists all the time, and of equal rules the kernel removes the old one.
func (u *updates) replaceOld() {
	requests := make([]rtnl.Request, len(u.replace))
	for n, r := range u.replace {
		requests[n] = u.rows[r.at].seen().addition(0)
	}
	var at []int // the row of each removal
	var removals []rtnl.Request
	for n, err := range u.target.conn.Execute(u.ctx, requests) {
		r := u.replace[n]
		if err != nil {
			u.fail(r.at, "replace", err)
			continue
		}
		u.results[r.at].Result.Changed = true
		for _, old := range r.old {
			at, removals = append(at, r.at), append(removals, old.deletion())
		}
	}
	for n, err := range u.target.conn.Execute(u.ctx, removals) {
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			u.fail(at[n], "replace", err)
		}
	}
}

// DeleteBatch implements reconciler.BatchTarget.
func (t *Target) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, rows []Rule) []error {
	outcomes := make([]error, len(rows))
	there, err := t.rules(ctx, t.mirror.Load().Settled(ctx))
	if err = errors.Join(err, ctx.Err()); err != nil {
		for i, row := range rows {
			outcomes[i] = fmt.Errorf("remove rule %s: %w", row.Key(), err)
		}
		return outcomes
	}
	var at []int // the place in rows of each request
	var requests []rtnl.Request
	for i, row := range rows {
		for _, s := range there(row.Key()) {
			if s.Protocol == rtnl.Ours {
				at, requests = append(at, i), append(requests, s.deletion())
			}
		}
	}
	for n, err := range t.conn.Execute(ctx, requests) {
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			outcomes[at[n]] = fmt.Errorf("remove rule %s: %w", rows[at[n]].Key(), err)
		}
	}
	return outcomes
}
