package link

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/rtnl"
	"github.com/statehive/statehive/reconciler/target/internal/steps"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/statedb"
)

// Config says how a target works.
type Config struct {
	// Owned is the state directory. Required.
	Owned *ownership.Store
}

// Target makes and sets links of the network namespace that it was made in.
type Target struct {
	conn    *rtnl.Conn
	records *ownership.Records[record]
}

var (
	_ reconciler.Target[Link]   = (*Target)(nil)
	_ reconciler.Observer[Link] = (*Target)(nil)
	_ reconciler.Differ[Link]   = (*Target)(nil)
)

// New returns a target. Close it after use.
func New(cfg Config) (*Target, error) {
	records, err := ownership.NewRecords[record](cfg.Owned, "link")
	if err != nil {
		return nil, err
	}
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	return &Target{conn: conn, records: records}, nil
}

// Close releases the target's socket.
func (t *Target) Close() error {
	t.conn.Close()
	return nil
}

// Init implements reconciler.Target. It drops the records of links that are gone.
func (t *Target) Init(ctx context.Context) error {
	for name := range t.records.All() {
		s, err := t.look(ctx, name)
		if err == nil && !s.created() && !s.adopted() {
			err = t.records.Remove(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Update implements reconciler.Target.
func (t *Target) Update(ctx context.Context, _ statedb.ReadTxn, row Link) (reconciler.Result, error) {
	s, err := t.lookFor(ctx, row)
	if err != nil {
		return reconciler.Result{}, err
	}
	if !s.mine(row) {
		if s, err = t.adopt(s, row); err != nil {
			return reconciler.Result{}, err
		}
	}
	result, err := steps.Take(ctx, t.steps(s, row))
	if err == nil {
		err = t.forgetMTU(s, row)
	}
	return result, err
}

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, _ statedb.ReadTxn, row Link) ([]reconciler.Change, error) {
	s, err := t.lookFor(ctx, row)
	if err != nil {
		return nil, err
	}
	return steps.Changes(t.steps(s, row)), nil
}

// steps says what is to be done for a row.
func (t *Target) steps(s state, row Link) []steps.Step {
	switch {
	case s.link == nil:
		return t.creation(row)
	case s.created() && row.Type != "" && !s.isLike(row):
		return t.recreation(s, row)
	}
	due := t.attributes(s, row)
	if s.created() {
		due = append(due, steps.Field("alias", s.link.Attrs().Alias, alias, func() error { return t.setAlias(s.index()) })...)
	}
	return due
}

// Delete implements reconciler.Target: it deletes a link that we created, and
// restores one that existed.
func (t *Target) Delete(ctx context.Context, _ statedb.ReadTxn, row Link) error {
	s, err := t.look(ctx, row.Name)
	if err != nil {
		return err
	}
	switch {
	case s.created():
		err = t.remove(s)
	case s.adopted():
		err = t.restore(s)
	}
	if err != nil {
		return err
	}
	return t.records.Remove(row.Name)
}

// Observe implements reconciler.Observer: it yields the links that we created
// and those whose attributes we set.
func (t *Target) Observe(ctx context.Context) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		for name := range t.records.All() {
			s, err := t.look(ctx, name)
			if err == nil && !s.created() && !s.adopted() {
				continue
			}
			if !yield(s.row(), err) || err != nil {
				return
			}
		}
	}
}

// Prune implements reconciler.Target. It is never called, since the target can
// observe.
func (t *Target) Prune(context.Context, statedb.ReadTxn, iter.Seq2[Link, statedb.Revision]) (int, error) {
	return 0, fmt.Errorf("prune links: %w: they are observed", errors.ErrUnsupported)
}
