package rule

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// Config is the configuration of a target.
type Config struct {
	// ProperName, if not nil, returns the proper name of an existing device, given any of its names, or "". Rows that name a device by
	// another one are refused.
	ProperName func(txn statedb.ReadTxn, device string) string
}

// Target creates rules in the network namespace that it was created in.
type Target struct {
	reconciler.NoInit // there is nothing to prepare
	reconciler.NoPrune[Rule]

	config Config
	conn   *rtnl.Conn
	// mirror has the existing rules; if it is nil, the kernel is asked each time.
	mirror atomic.Pointer[mirror.Mirror[Seen, event]]
}

var (
	_ reconciler.BatchTarget[Rule] = (*Target)(nil)
	_ reconciler.Observer[Rule]    = (*Target)(nil)
	_ reconciler.BatchDiffer[Rule] = (*Target)(nil)
)

// New returns a target. Close it after use.
func New(config Config) (*Target, error) {
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	return &Target{config: config, conn: conn}, nil
}

// Close releases the target's sockets.
func (t *Target) Close() error {
	t.conn.Close()
	return nil
}

// Update implements reconciler.Target.
func (t *Target) Update(ctx context.Context, txn statedb.ReadTxn, row Rule) (reconciler.Result, error) {
	result := t.UpdateBatch(ctx, txn, []Rule{row})[0]
	return result.Result, result.Err
}

// Delete implements reconciler.Target. It removes our rules with the key of the row.
func (t *Target) Delete(ctx context.Context, txn statedb.ReadTxn, row Rule) error {
	return t.DeleteBatch(ctx, txn, []Rule{row})[0]
}

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, txn statedb.ReadTxn, row Rule) ([]reconciler.Change, error) {
	result := t.DiffBatch(ctx, txn, []Rule{row})[0]
	return result.Changes, result.Err
}

// DiffBatch implements reconciler.BatchDiffer.
func (t *Target) DiffBatch(ctx context.Context, txn statedb.ReadTxn, rows []Rule) []reconciler.DiffResult {
	results := make([]reconciler.DiffResult, len(rows))
	there, err := t.rules(ctx, t.mirror.Load().View(ctx))
	for i, row := range rows {
		if results[i].Err = errors.Join(err, ctx.Err(), t.checkDevices(txn, row)); results[i].Err == nil {
			results[i].Changes, results[i].Err = row.diff(there)
		}
	}
	return results
}

// checkDevices refuses a row that names a device by an alternative name. The kernel looks at these only when a rule is added: when
// the device comes later, or is made anew, the rule does not match.
func (t *Target) checkDevices(txn statedb.ReadTxn, row Rule) error {
	if t.config.ProperName == nil {
		return nil
	}
	for _, field := range []field{{"in", row.In}, {"out", row.Out}} {
		if field.value == "" {
			continue
		}
		if name := t.config.ProperName(txn, field.value); name != "" && name != field.value {
			return fmt.Errorf("rule %s: %s: %s is an alternative name of %s, and the kernel matches rules by proper names only: use %s", row.Key(), field.name, field.value, name, name)
		}
	}
	return nil
}

// diff returns the changes that Update would make for a row.
func (r Rule) diff(there rules) ([]reconciler.Change, error) {
	r, err := r.Normalized()
	if err != nil {
		return nil, err
	}
	c := r.compare(there(r.Key()))
	if err := c.check(); err != nil {
		return nil, err
	}
	return steps.Changes(c.steps), nil
}

// Observe implements reconciler.Observer: it yields all rules of our protocol, but only the
// first of several with one key.
func (t *Target) Observe(ctx context.Context) iter.Seq2[Rule, error] {
	return func(yield func(Rule, error) bool) {
		seen, err := t.all(ctx)
		if err != nil {
			yield(Rule{}, err)
			return
		}
		var last Key
		for s := range seen {
			if s.Protocol != rtnl.Ours || s.Key == last {
				continue
			}
			last = s.Key
			if !yield(s.row(), nil) {
				return
			}
		}
	}
}

// all returns all rules. Rules with the same key follow each other.
func (t *Target) all(ctx context.Context) (iter.Seq[Seen], error) {
	m := t.mirror.Load()
	if m == nil {
		rules, err := t.list(ctx)
		return func(yield func(Seen) bool) {
			for _, s := range rules { // the kernel has them in the order of their priorities
				if !yield(s) {
					return
				}
			}
		}, err
	}
	view, err := m.Listed(ctx)
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	return func(yield func(Seen) bool) {
		for s := range view.Table.All(view.Txn) {
			if !yield(s) {
				return
			}
		}
	}, nil
}
