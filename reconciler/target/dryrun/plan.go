package dryrun

import (
	"context"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Action is what would be done about a row.
type Action string

// The actions.
const (
	Create Action = "create"
	Change Action = "change"
	Delete Action = "delete"
	// Fail: the operation would fail, such as that of a row whose key somebody else holds, or
	// the comparison has failed.
	Fail Action = "error"
)

// Operation is what would be done about one row, or about something that is in no row.
type Operation struct {
	Action Action `json:"action"`
	Kind   string `json:"kind"`
	Key    string `json:"key"`
	// Changes are the fields that differ. There are none for a delete, nor for a row that is
	// created after another one, because they are not known yet.
	Changes []reconciler.Change `json:"changes,omitempty"`
	// After names the rows that this one waits for and that need an operation first, as in
	// "link wan0". It names ten at most; a last element such as "5 more" counts the others.
	After  []string `json:"after,omitempty"`
	Error  string   `json:"error,omitempty"`  // error of the action Fail
	Origin string   `json:"origin,omitempty"` // where the row is declared: "file:line:column"
	Agent  *Agent   `json:"agent,omitempty"`  // the agent's version of the row, if an agent was asked
}

// Agent describes the row in a running agent.
type Agent struct {
	// InForce says whether the agent has the row: "same", or "other" if its row differs; empty if it
	// has no row with the key.
	InForce string `json:"inForce,omitempty"`
	// State is the reason why the agent does not do the operation now, such as "paused: …"; empty
	// if no such reason is known.
	State string `json:"state,omitempty"`
}

// Plan is what would be done.
type Plan struct {
	// Operations are in the order in which they would be done: rows that others need come first,
	// and deletes come last, in reverse order. Rows that are in sync are left out.
	Operations []Operation `json:"operations"`
	Create     int         `json:"create"`
	Change     int         `json:"change"`
	Delete     int         `json:"delete"`
	Errors     int         `json:"errors"`
	Unchanged  int         `json:"unchanged"` // number of rows that are in sync
}

// Row is a desired row.
type Row struct {
	Kind   string
	Key    string // the primary key, as text
	Value  any    // of the row type of the kind
	Origin string // where it is declared, if known
}

// Params are the parameters of [Make].
type Params struct {
	// Txn is a snapshot of the database of the kinds, which is passed to Diff. The rows need not
	// be in its tables.
	Txn statedb.ReadTxn
	// Kinds are all kinds. If a kind has no rows, its objects that are ours are deleted.
	Kinds []Kind
	Rows  []Row
	// State, if not nil, returns why the reconciler of a table does nothing about a row now,
	// given the row's key as text and whether it is in the table. If State is set, operations have
	// an Agent, and the tables of the kinds have the rows in force.
	State func(ctx context.Context, table, key string, inTable bool) string
}

// Make returns a plan. It fails if existing objects cannot be listed, or if rows belong to none
// of the kinds; errors of single rows are in the plan.
func Make(ctx context.Context, p Params) (Plan, error) {
	kinds, err := inOrder(p.Kinds)
	if err != nil {
		return Plan{}, err
	}
	rows, err := byKind(kinds, p.Rows)
	if err != nil {
		return Plan{}, err
	}
	plan, due := Plan{Operations: []Operation{}}, &steps{}
	for _, k := range kinds {
		c, err := k.compare(ctx, p, rows[k.Name()])
		if err != nil {
			return Plan{}, err
		}
		plan.Unchanged += c.unchanged
		due.add(c)
	}
	if err := due.relate(ctx); err != nil {
		return Plan{}, err
	}
	for _, s := range due.ordered() {
		plan.add(s.op)
	}
	return plan, ctx.Err()
}

func (p *Plan) add(op Operation) {
	p.Operations = append(p.Operations, op)
	switch op.Action {
	case Create:
		p.Create++
	case Change:
		p.Change++
	case Delete:
		p.Delete++
	case Fail:
		p.Errors++
	}
}
