package dryruncell

import (
	"context"
	"sync/atomic"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/target/dryrun"
	"github.com/statehive/statehive/statedb"
)

// Cell returns the module. The command gets the flags of some settings of the hive, by their
// names: of those that say where to look, such as the directory of records.
func Cell(settings ...string) cell.Cell {
	return cell.Module("dry-run", "comparison of documents with the system",
		cell.Provide(
			func() *Mode { return &Mode{} },
			planEndpoint,
			func() cli.CommandOut { return planCommand(settings) },
		),
		cell.InvokedLater(func(local) {}), // by the command
	)
}

// Mode is whether the process only looks, and must not change anything. It is known before
// anything is made of the hive. The zero value is that of an agent.
type Mode struct{ readOnly atomic.Bool }

// ReadOnly reports whether nothing may be written: neither to the system nor to a state
// directory, which may be in use.
func (m *Mode) ReadOnly() bool { return m.readOnly.Load() }

// KindOut contributes a kind.
type KindOut struct {
	cell.Out
	Kind dryrun.Kind `group:"dry-run-kinds"`
}

// Mirror keeps a table as the system is, until ctx ends.
type Mirror interface {
	Run(ctx context.Context, health reconciler.Health) error
}

// MirrorOut contributes a mirror that targets look into. It runs while the command compares;
// in an agent it runs anyway.
type MirrorOut struct {
	cell.Out
	Mirror Mirror `group:"dry-run-mirrors"`
}

// StateOut contributes how a reconciler explains a row, by the name of its table.
type StateOut struct {
	cell.Out
	Explainer Explainer `group:"dry-run-explainers"`
}

// Explainer tells how an agent's reconciler stands with a row.
type Explainer struct {
	Table   string
	Explain func(ctx context.Context, key string) (reconciler.Explanation, error)
}

// Comparer is what documents are compared by. The hive makes it.
type Comparer struct {
	cell.In

	DB        *statedb.DB
	Kinds     []dryrun.Kind `group:"dry-run-kinds"`
	Documents []file.Kind   `group:"document-kinds"`
}

// Answer is a plan, or what is wrong with the documents that it was to be made of.
type Answer struct {
	dryrun.Plan

	Files     int            `json:"files"`
	Documents int            `json:"documents"`
	Problems  []file.Problem `json:"problems,omitempty"` // then there is no plan
	// Process is that of the agent that has compared them; 0: none was asked.
	Process int `json:"process,omitempty"`
}

// plan compares what files declare with the system. state is that of dryrun.Params.
func (c Comparer) plan(ctx context.Context, contents file.Contents, state func(context.Context, string, string, bool) string) (answer Answer, err error) {
	answer = Answer{Files: contents.Files, Documents: contents.Documents, Problems: contents.Problems}
	if len(contents.Problems) > 0 {
		answer.Operations = []dryrun.Operation{} // for those who read JSON
		return answer, nil
	}
	rows := make([]dryrun.Row, len(contents.Rows))
	for i, r := range contents.Rows {
		rows[i] = dryrun.Row(r)
	}
	answer.Plan, err = dryrun.Make(ctx, dryrun.Params{Txn: c.DB.ReadTxn(), Kinds: c.Kinds, Rows: rows, State: state})
	return answer, err
}
