package reconcilercell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/time/rate"

	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// actTimeout is how long a request waits for its reconciler.
const actTimeout = 10 * time.Second

// api answers requests to a reconciler.
type api struct {
	db     *statedb.DB
	all    *registry
	logger *slog.Logger
}

func newAPI(db *statedb.DB, all *registry, logger *slog.Logger) *api { return &api{db, all, logger} }

// Acted is the response to a manual action.
type Acted struct {
	Reconciler string `json:"reconciler"`
	Action     string `json:"action"`
	// Rows is the number of rows affected; -1 means all, including future ones. It is 0 for a
	// plan.
	Rows   int       `json:"rows"`
	Plan   string    `json:"plan,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	Limits *Limits   `json:"limits,omitempty"`
}

// Limits are the limits of a reconciler that can be changed while it runs.
type Limits struct {
	RoundSize int     `json:"roundSize"`
	Rate      float64 `json:"rate"` // operations per second; 0: no limit
	Burst     int     `json:"burst"`
}

// request is a request to a reconciler.
type request struct {
	instance

	db    *statedb.DB
	query url.Values
}

type action func(ctx context.Context, r request) (any, error)

// endpoint returns an endpoint for an action.
func (a *api) endpoint(method, name string, known []string, act action) inspect.EndpointOut {
	out := inspect.NewEndpoint(method+" "+path+"/{name}/"+name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), actTimeout)
		defer cancel()
		answer, err := a.answer(ctx, r, act)
		if method != http.MethodGet {
			a.logger.Info("Manual request", "reconciler", r.PathValue("name"), "action", name, "parameters", r.URL.RawQuery, "error", err)
		}
		if err != nil {
			inspect.WriteError(w, httpStatus(err), err)
			return
		}
		inspect.WriteJSON(w, answer)
	}), known...)
	out.Endpoint.NoBody = true
	return out
}

func (a *api) answer(ctx context.Context, r *http.Request, act action) (any, error) {
	i, err := a.all.find(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return act(ctx, request{i, a.db, r.URL.Query()})
}

func httpStatus(err error) int {
	var name *nameError
	var approval *reconciler.ApprovalError
	switch {
	case errors.As(err, &name), errors.Is(err, statedb.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, reconciler.ErrNotRunning), errors.Is(err, reconciler.ErrAllPaused), errors.As(err, &approval):
		return http.StatusConflict
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadRequest
	}
}

func (r request) acted(action string, rows int) Acted {
	return Acted{Reconciler: r.Name(), Action: action, Rows: rows}
}

func explainEndpoint(a *api) inspect.EndpointOut {
	return a.endpoint(http.MethodGet, "explain", []string{paramKey}, func(ctx context.Context, r request) (any, error) {
		key, err := r.one(paramKey)
		if err != nil {
			return nil, err
		}
		return r.Explain(ctx, key)
	})
}

func triggerEndpoint(a *api) inspect.EndpointOut {
	return a.endpoint(http.MethodPost, "trigger", selectionParams(), func(ctx context.Context, r request) (any, error) {
		keys, none, err := r.selected(ctx)
		if err != nil || none {
			return r.acted("triggered", 0), err
		}
		rows, err := r.trigger(ctx, keys)
		return r.acted("triggered", rows), err
	})
}

func pauseEndpoint(a *api) inspect.EndpointOut {
	known := append(selectionParams(), paramFor)
	return a.endpoint(http.MethodPost, "pause", known, func(ctx context.Context, r request) (any, error) {
		until, err := r.until()
		if err != nil {
			return nil, err
		}
		keys, none, err := r.selected(ctx)
		acted := r.acted("paused", rowsOf(keys, none))
		if acted.Until = until; err != nil || none {
			return acted, err
		}
		return acted, r.pause(ctx, keys, until)
	})
}

func resumeEndpoint(a *api) inspect.EndpointOut {
	return a.endpoint(http.MethodPost, "resume", selectionParams(), func(ctx context.Context, r request) (any, error) {
		keys, none, err := r.selected(ctx)
		acted := r.acted("resumed", rowsOf(keys, none))
		if err != nil || none {
			return acted, err
		}
		return acted, r.resume(ctx, keys)
	})
}

// rowsOf returns the number of rows that keys select, or -1 for all.
func rowsOf(keys []string, none bool) int {
	if len(keys) == 0 && !none {
		return -1
	}
	return len(keys)
}

func fullEndpoint(a *api) inspect.EndpointOut {
	return a.endpoint(http.MethodPost, "full", nil, func(_ context.Context, r request) (any, error) {
		r.FullPass()
		return r.acted("resync asked for", -1), nil
	})
}

func forgetEndpoint(a *api) inspect.EndpointOut {
	return a.endpoint(http.MethodPost, "forget", []string{paramKey}, func(ctx context.Context, r request) (any, error) {
		key, err := r.one(paramKey)
		if err == nil {
			err = r.Forget(ctx, key)
		}
		return r.acted("forgotten", 1), err
	})
}

func limitsEndpoint(a *api) inspect.EndpointOut {
	return a.endpoint(http.MethodPost, "limits", []string{paramRound, paramRate, paramBurst}, func(_ context.Context, r request) (any, error) {
		limits, err := r.limits(r.Limits())
		if err == nil {
			err = r.SetLimits(limits)
		}
		acted := r.acted("limited", -1)
		acted.Limits = &Limits{RoundSize: r.Limits().RoundSize}
		if l := r.Limits().Limiter; l != nil {
			acted.Limits.Rate, acted.Limits.Burst = float64(l.Limit()), l.Burst()
		}
		return acted, err
	})
}

// limits returns the given limits as changed by the request.
func (r request) limits(limits reconciler.Limits) (reconciler.Limits, error) {
	round, err := r.count(paramRound)
	if err != nil {
		return limits, err
	}
	limits.RoundSize = cmp.Or(round, limits.RoundSize)
	burst, err := r.count(paramBurst)
	if err != nil {
		return limits, err
	}
	perSecond, given, err := r.perSecond(paramRate)
	switch {
	case err != nil:
		return limits, err
	case burst > 0 && !given:
		return limits, fmt.Errorf("parameter %q needs %q: operations per second", paramBurst, paramRate)
	case given && perSecond == 0:
		limits.Limiter = nil
	case given:
		asMany := int(min(max(1, perSecond), maxCount))
		limits.Limiter = rate.NewLimiter(rate.Limit(perSecond), cmp.Or(burst, asMany))
	}
	return limits, nil
}
