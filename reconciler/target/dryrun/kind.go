package dryrun

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Kind is a kind of row for which plans can be made. Use [NewKind] to create one.
type Kind interface {
	// Name returns the name of the kind.
	Name() string

	table() string
	needs() []string // tables that its rows depend on
	compare(ctx context.Context, p Params, rows []Row) (comparison, error)
	copy(ctx context.Context, into *copied) error
	needed(s *step, in map[string]*copied) []*group
}

// Config configures a kind. Name, Schema, Table and Target are required.
type Config[Obj reconciler.Reconcilable[Obj]] struct {
	Name   string
	Schema statedb.Schema[Obj] // of Table
	Table  *statedb.Table[Obj]
	// Target's Diff and Observe are called. If it is not a [reconciler.Differ], its rows are
	// errors in plans. If it is not a [reconciler.Observer], the rows of Table that are not
	// among the rows of the plan are deleted.
	Target    reconciler.Target[Obj]
	DependsOn []reconciler.Dependency[Obj]
}

type kind[Obj reconciler.Reconcilable[Obj]] struct{ config Config[Obj] }

// NewKind returns a kind for plans.
func NewKind[Obj reconciler.Reconcilable[Obj]](c Config[Obj]) (Kind, error) {
	if c.Name == "" || c.Table == nil || c.Target == nil {
		return nil, fmt.Errorf("kind %q: one of Name, Table and Target is not set", c.Name)
	}
	return &kind[Obj]{c}, nil
}

func (k *kind[Obj]) Name() string  { return k.config.Name }
func (k *kind[Obj]) table() string { return k.config.Table.Name() }

func (k *kind[Obj]) needs() []string {
	var tables []string
	for _, d := range k.config.DependsOn {
		tables = append(tables, d.Table())
	}
	slices.Sort(tables)
	return slices.Compact(tables)
}

// comparison is the result of comparing the rows of a kind.
type comparison struct {
	due       []*step // rows that differ or cannot be compared
	deletes   []*step
	unchanged int
}

func (k *kind[Obj]) compare(ctx context.Context, p Params, rows []Row) (c comparison, err error) {
	objs, keys, ours := make([]Obj, len(rows)), make([]string, len(rows)), make(map[string]bool, len(rows))
	for i, r := range rows {
		obj, ok := r.Value.(Obj)
		if !ok {
			return c, fmt.Errorf("kind %s: row %q is a %T", k.config.Name, r.Key, r.Value)
		}
		objs[i], keys[i] = obj, k.encoded(obj)
		ours[keys[i]] = false
	}
	for obj, err := range k.existing(ctx, p) {
		if err != nil {
			return c, fmt.Errorf("kind %s: list what there is: %w", k.config.Name, err)
		}
		key := k.encoded(obj)
		if _, wanted := ours[key]; wanted {
			ours[key] = true
			continue
		}
		s := k.step(Row{Key: k.config.Table.Key(obj)}, obj)
		s.op.Action = Delete
		c.deletes = append(c.deletes, s)
	}
	for i, result := range k.differences(ctx, p.Txn, objs) {
		if result.Err == nil && len(result.Changes) == 0 {
			c.unchanged++
			continue
		}
		s := k.step(rows[i], objs[i])
		s.differs(result, ours[keys[i]])
		c.due = append(c.due, s)
	}
	byKey := func(a, b *step) int { return strings.Compare(a.op.Key, b.op.Key) }
	slices.SortFunc(c.due, byKey)
	slices.SortFunc(c.deletes, byKey)
	for _, s := range slices.Concat(c.due, c.deletes) {
		k.askAgent(ctx, p, s)
	}
	return c, ctx.Err()
}

func (k *kind[Obj]) step(r Row, obj Obj) *step {
	return &step{of: k, row: obj, op: Operation{Kind: k.config.Name, Key: r.Key, Origin: r.Origin}}
}

// differs records how a row differs. An object that is ours already, or has a value now, is changed, not created.
func (s *step) differs(d reconciler.DiffResult, ours bool) {
	s.op.Changes = d.Changes
	exists := ours || slices.ContainsFunc(d.Changes, func(c reconciler.Change) bool { return c.Is != "" })
	switch {
	case d.Err != nil:
		s.op.Action, s.op.Error, s.terminal = Fail, d.Err.Error(), reconciler.IsTerminal(d.Err)
	case exists:
		s.op.Action = Change
	default:
		s.op.Action = Create
	}
}

func (k *kind[Obj]) encoded(obj Obj) string { return k.config.Table.KeyQuery(obj).Encoded() }

// existing yields each object that is ours once. If the target cannot list them, it yields the rows in force.
func (k *kind[Obj]) existing(ctx context.Context, p Params) func(yield func(Obj, error) bool) {
	observer, ok := k.config.Target.(reconciler.Observer[Obj])
	if ok {
		return observer.Observe(ctx)
	}
	return func(yield func(Obj, error) bool) {
		for obj := range k.config.Table.All(p.Txn) {
			if !yield(obj, nil) {
				return
			}
		}
	}
}

var errNoDiff = errors.New("the target of this kind cannot say what it would change")

// differences compares rows, in one call if the target can do so.
func (k *kind[Obj]) differences(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []reconciler.DiffResult {
	if batches, ok := k.config.Target.(reconciler.BatchDiffer[Obj]); ok && len(objs) > 0 {
		var results []reconciler.DiffResult
		panicked := guard(func() { results = batches.DiffBatch(ctx, txn, slices.Clone(objs)) })
		if panicked == nil && len(results) == len(objs) {
			return results
		}
	}
	differ, ok := k.config.Target.(reconciler.Differ[Obj])
	results := make([]reconciler.DiffResult, len(objs))
	for i, obj := range objs {
		r := &results[i]
		if !ok {
			r.Err = reconciler.Terminal(errNoDiff)
			continue
		}
		if panicked := guard(func() { r.Changes, r.Err = differ.Diff(ctx, txn, obj) }); panicked != nil {
			r.Err = reconciler.Terminal(panicked)
		}
	}
	return results
}

// guard calls fn and turns a panic into an error, so that the plan continues without the row.
func guard(fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	fn()
	return nil
}

// askAgent records the agent's version of a row.
func (k *kind[Obj]) askAgent(ctx context.Context, p Params, s *step) {
	if p.State == nil {
		return
	}
	obj := s.row.(Obj) //nolint:forcetypeassert // steps of a kind have its rows
	s.op.Agent = &Agent{}
	has, _, found := k.config.Table.Get(p.Txn, k.config.Table.KeyQuery(obj))
	none := reconciler.Status{}
	switch {
	case found && (s.op.Action == Delete || reflect.DeepEqual(has.WithStatus(none), obj.WithStatus(none))):
		s.op.Agent.InForce = "same"
	case found:
		s.op.Agent.InForce = "other"
	}
	s.op.Agent.State = p.State(ctx, k.table(), s.op.Key, found)
}

// copied is a table with the rows of a kind that need an operation.
type copied struct {
	steps  map[string]*step // by key as text
	groups map[groupID]*group
	same   map[uint64][]*group // by a hash of their steps
	table  statedb.TableMeta
	txn    statedb.ReadTxn
}

func (k *kind[Obj]) copy(ctx context.Context, into *copied) error {
	db := statedb.New()
	table, err := statedb.NewTable(db, k.config.Schema)
	if err != nil {
		return fmt.Errorf("kind %s: %w", k.config.Name, err)
	}
	err = db.Update(ctx, func(txn *statedb.WriteTxn) error {
		for _, s := range into.steps {
			if _, _, err := table.Insert(txn, s.row.(Obj)); err != nil { //nolint:forcetypeassert // steps of a kind have its rows
				return fmt.Errorf("%s: %w", s.title(), err)
			}
		}
		return nil
	}, table)
	into.table, into.txn = table, db.ReadTxn()
	return err
}

func (k *kind[Obj]) needed(s *step, in map[string]*copied) (needs []*group) {
	row := s.row.(Obj) //nolint:forcetypeassert // steps of a kind have its rows
	for i, d := range k.config.DependsOn {
		other := in[d.Table()]
		if other == nil {
			continue // there is nothing to do
		}
		panicked := guard(func() {
			id := groupID{k.config.Name, i, d.Key(row)}
			if other.groups[id] == nil {
				var steps []*step
				for key := range d.Rows(other.txn, other.table, row) {
					if needed := other.steps[key]; needed != nil {
						steps = append(steps, needed)
					}
				}
				other.groups[id] = other.group(steps)
			}
			if g := other.groups[id]; len(g.steps) > 0 {
				needs = append(needs, g)
			}
		})
		if panicked != nil {
			s.op.Action, s.op.Error, s.terminal = Fail, panicked.Error(), true
		}
	}
	return needs
}
