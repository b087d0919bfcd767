package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/httpserve"
)

// Endpoint is a path of the API.
type Endpoint struct {
	// Pattern is one of http.ServeMux with a method, such as "GET /v1/tables/{name}".
	Pattern string
	// Handler answers. It may be called by several goroutines at once.
	Handler http.Handler
	// Params are the names that the query may have. A request with others is refused.
	Params []string
	// NoBody: a request with a body is refused, as it is with GET and DELETE in any case.
	NoBody bool
	// MaxBody is how many bytes a request may have. Not positive: 1 MiB.
	MaxBody int64
	// Stream reports whether the answer to a request goes on for as long as the client wants. Nil: none does. The
	// streams of a user are limited.
	Stream func(r *http.Request) bool
}

// EndpointOut contributes an endpoint.
type EndpointOut struct {
	cell.Out
	Endpoint Endpoint `group:"inspect-endpoints"`
}

// NewEndpoint makes the contribution of an endpoint, whose query may have these parameters.
func NewEndpoint(pattern string, h http.Handler, params ...string) EndpointOut {
	return EndpointOut{Endpoint: Endpoint{Pattern: pattern, Handler: h, Params: params}}
}

// check refuses parameters and bodies that the endpoint does not read: they are mistyped, or meant for another one.
func (e Endpoint) check(r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fmt.Errorf("query %q: %w", r.URL.RawQuery, err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case slices.Contains(e.Params, name):
		case len(e.Params) == 0:
			return fmt.Errorf("unknown parameter %q; there are none", name)
		default:
			return fmt.Errorf("unknown parameter %q; there are: %s", name, strings.Join(e.Params, ", "))
		}
	}
	if r.ContentLength != 0 && (e.NoBody || r.Method == http.MethodGet || r.Method == http.MethodDelete) {
		return errors.New("the request has a body, expected none: parameters stand in the query")
	}
	return nil
}

// router answers requests for unknown paths with a list of the endpoints.
type router struct {
	mux       *http.ServeMux
	patterns  []string
	endpoints map[string]Endpoint // by pattern
}

// Limits implements httpserve.Limiter.
func (rt *router) Limits(r *http.Request) httpserve.Limits {
	_, pattern := rt.mux.Handler(r)
	e := rt.endpoints[pattern]
	return httpserve.Limits{MaxBody: e.MaxBody, Stream: e.Stream != nil && e.Stream(r)}
}

// NewHandler returns what the server serves, for tests of endpoints.
func NewHandler(endpoints []Endpoint) (http.Handler, error) { return newRouter(endpoints) }

func newRouter(endpoints []Endpoint) (*router, error) {
	rt := &router{mux: http.NewServeMux(), endpoints: map[string]Endpoint{}}
	var errs []error
	for _, e := range endpoints {
		errs = append(errs, rt.add(e))
	}
	slices.Sort(rt.patterns)
	return rt, errors.Join(errs...)
}

// add turns the panic of ServeMux at a bad or conflicting pattern into an error.
func (rt *router) add(e Endpoint) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("endpoint %q: %v", e.Pattern, p)
		}
	}()
	if method, path, ok := strings.Cut(e.Pattern, " "); !ok || method == "" || !strings.HasPrefix(path, "/") {
		return fmt.Errorf("endpoint %q: expected a method and a path, such as \"GET /v1/tables\"", e.Pattern)
	}
	if e.Handler == nil {
		return fmt.Errorf("endpoint %q has no handler", e.Pattern)
	}
	rt.mux.Handle(e.Pattern, e.Handler)
	rt.patterns = append(rt.patterns, e.Pattern)
	rt.endpoints[e.Pattern] = e
	return nil
}

func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, pattern := rt.mux.Handler(r)
	e, known := rt.endpoints[pattern]
	if !known {
		WriteError(w, http.StatusNotFound,
			fmt.Errorf("there is no %s %s; there are: %s", r.Method, r.URL.Path, strings.Join(rt.patterns, ", ")))
		return
	}
	if err := e.check(r); err != nil {
		WriteError(w, http.StatusBadRequest, err)
		return
	}
	rt.mux.ServeHTTP(w, r)
}

// WriteJSON answers with v and status 200; with an error if v cannot be encoded.
func WriteJSON(w http.ResponseWriter, v any) { writeJSON(w, http.StatusOK, v) }

// WriteError answers with an error, which the client returns as *APIError.
func WriteError(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, errorBody{Error: err.Error()})
}

type errorBody struct {
	Error string `json:"error"`
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(v); err != nil {
		WriteError(w, http.StatusInternalServerError, fmt.Errorf("cannot encode the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client is gone
}
