package reconcilercell

import (
	"net/http"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

// Cell provides what [Register] needs, the not-done table, the endpoints below
// /v1/reconcilers, the commands that use them, and a section of the status command.
func Cell() cell.Cell {
	return cell.Module("reconcilers", "commands, API and metrics of reconcilers",
		cell.Config(defaultConfig()),
		dbcell.Open(reconciler.NotDoneSchema()),
		cell.ProvidePrivate(newAPI),
		cell.Provide(newRegistry, section, readyCondition),
		cell.Invoke(registerMetrics),
		cell.Provide(listEndpoint, explainEndpoint, triggerEndpoint, pauseEndpoint, resumeEndpoint, fullEndpoint, limitsEndpoint, forgetEndpoint,
			planEndpoint, approveEndpoint, failuresEndpoint),
		cell.Provide(explainCommand, triggerCommand, pauseCommand, resumeCommand, resyncCommand, limitsCommand, forgetCommand,
			planCommand, approveCommand, failuresCommand),
	)
}

// Status is the status of a reconciler in the response to GET /v1/reconcilers.
type Status struct {
	reconciler.Summary

	Module  string       `json:"module"`
	Health  health.Level `json:"health"`
	Message string       `json:"message"`
	Cause   string       `json:"cause,omitempty"` // the first error, when degraded
}

func listEndpoint(db *statedb.DB, all *registry) inspect.EndpointOut {
	return inspect.NewEndpoint("GET "+path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		txn := db.ReadTxn()
		statuses := []Status{}
		for _, instance := range all.instances() {
			statuses = append(statuses, instance.status(txn))
		}
		inspect.WriteJSON(w, statuses)
	}))
}

func (i instance) status(txn statedb.ReadTxn) Status {
	last := i.health.get()
	s := Status{
		Summary: i.Summary(txn),
		Module:  string(i.module),
		Health:  last.level,
		Message: last.message,
	}
	if last.err != nil {
		s.Cause = last.err.Error()
	}
	return s
}
