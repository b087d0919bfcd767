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
	// Changes are the fields that differ. There are none for a delete, nor for what is
	// created after something else, because they are not known yet.
	Changes []reconciler.Change `json:"changes,omitempty"`
	// After are the rows that it waits for and that need an operation first, as
	// "link wan0".
	After  []string `json:"after,omitempty"`
	Error  string   `json:"error,omitempty"`  // of Fail
	Origin string   `json:"origin,omitempty"` // where the row is declared: "file:line:column"
	Agent  *Agent   `json:"agent,omitempty"`  // what the agent has of it, if one was asked
}

// Agent is what a running agent has of a row.
type Agent struct {
	// InForce is whether the agent has the row: "same", or "other" if it differs; empty: it has
	// none with the key.
	InForce string `json:"inForce,omitempty"`
	// State is why the agent does not do it now, such as "paused: …"; empty if nothing is known
	// to prevent it.
	State string `json:"state,omitempty"`
}

// Plan is what would be done.
type Plan struct {
	// Operations are in the order in which they would be done: what is needed by others comes
	// first, and deletes come last, in reverse. Rows that are as they should be are not in it.
	Operations []Operation `json:"operations"`
	Create     int         `json:"create"`
	Change     int         `json:"change"`
	Delete     int         `json:"delete"`
	Errors     int         `json:"errors"`
	Unchanged  int         `json:"unchanged"` // rows that are as they should be
}

// Row is a row as it should be.
type Row struct {
	Kind   string
	Key    string // the primary key, as text
	Value  any    // of the row type of the kind
	Origin string // where it is declared, if known
}

// Params are the parameters of [Make].
type Params struct {
	// Txn is a snapshot of the database of the kinds, which Diff is given. The rows need not
	// be in its tables.
	Txn statedb.ReadTxn
	// Kinds are all kinds. What is ours of a kind without rows is deleted.
	Kinds []Kind
	Rows  []Row
	// State, if not nil, returns why the reconciler of a table does nothing about a row now,
	// given its key as text and whether it is in the table. Then operations have an Agent, and
	// the tables of the kinds are what is in force.
	State func(ctx context.Context, table, key string, inTable bool) string
}

// Make returns what would be done. It fails if what exists cannot be listed, or if rows are
// of none of the kinds; errors of single rows are in the plan.
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
