package dryruncell

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/statedb"
)

const (
	path = "/v1/plan"
	// maxRequest is how many bytes a request may have: about 190 MB of documents.
	maxRequest = 256 << 20
	// bodyTimeout is how long a client may take to send them.
	bodyTimeout = 30 * time.Second
	// timeout bounds a comparison in the agent.
	timeout = 5 * time.Minute
	// maxExplained bounds the rows about which reconcilers are asked, in one plan. What is held
	// or fails is known without that.
	maxExplained = 1000
)

type agentParams struct {
	cell.In
	Comparer

	Source     *file.Source `optional:"true"` // without it the agent does not start
	NotDone    *statedb.Table[reconciler.NotDone]
	Explainers []Explainer `group:"dry-run-explainers"`
}

func planEndpoint(p agentParams) inspect.EndpointOut {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		// The connection has deadlines that are meant for requests of another size.
		control, deadline := http.NewResponseController(w), time.Now().Add(timeout)
		_, _ = control.SetReadDeadline(time.Now().Add(bodyTimeout)), control.SetWriteDeadline(deadline) // else those stay
		req, err := readRequest(r.Body)
		if err != nil {
			inspect.WriteError(w, http.StatusBadRequest, fmt.Errorf("documents to compare: %w", err))
			return
		}
		_ = control.SetReadDeadline(deadline) // while it compares
		answer, err := p.plan(ctx, p.Source.Read(req.Files), p.stateOf())
		if err != nil {
			inspect.WriteError(w, http.StatusInternalServerError, err)
			return
		}
		answer.Process = os.Getpid()
		inspect.WriteJSON(w, answer)
	})
	out := inspect.NewEndpoint("POST "+path, handler)
	out.Endpoint.MaxBody = maxRequest
	return out
}

// stateOf returns what tells why nothing is done about a row now.
func (p agentParams) stateOf() func(context.Context, string, string, bool) string {
	txn, explained := p.DB.ReadTxn(), 0
	explain := map[string]Explainer{}
	for _, e := range p.Explainers {
		explain[e.Table] = e
	}
	return func(ctx context.Context, table, key string, inTable bool) string {
		if row, _, found := p.NotDone.Get(txn, reconciler.NotDoneByKey.Query(reconciler.NotDoneKey{Reconciler: table, Key: key})); found {
			return stateText(row)
		}
		e, known := explain[table]
		if !known || !inTable || explained >= maxExplained {
			return ""
		}
		explained++
		explanation, err := e.Explain(ctx, key)
		if err != nil {
			return "" // it is gone by now
		}
		for _, wait := range explanation.WaitsFor {
			if wait.Cause == "paused" {
				return wait.Text
			}
		}
		return ""
	}
}

func stateText(row reconciler.NotDone) string {
	parts := []string{row.State}
	if row.WaitsFor != "" && row.WaitsFor != row.State {
		parts[0] = row.State + ": " + strings.TrimPrefix(row.WaitsFor, row.State+": ")
	}
	if row.LastError != "" {
		parts = append(parts, row.LastError)
	}
	return strings.Join(parts, "; ")
}
