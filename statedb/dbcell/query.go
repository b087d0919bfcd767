package dbcell

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Query parameters of GET /v1/tables/{name}.
const (
	paramKey    = "key"
	paramIndex  = "index"
	paramValue  = "value"
	paramStatus = "status"
)

func params() []string { return []string{paramKey, paramIndex, paramValue, paramStatus} }

// query is which rows are asked for. Each parameter is there at most once.
type query url.Values

func (q query) has(param string) bool   { return url.Values(q).Has(param) }
func (q query) get(param string) string { return url.Values(q).Get(param) }

func parseQuery(raw string) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("query %q: %w", raw, err)
	}
	q := query(values)
	return q, q.check()
}

func (q query) check() error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(params(), name) {
			return fmt.Errorf("unknown parameter %q; there are: %s", name, strings.Join(params(), ", "))
		}
		if n := len(q[name]); n > 1 {
			return fmt.Errorf("parameter %q is given %d times, expected once", name, n)
		}
	}
	if q.has(paramIndex) != q.has(paramValue) {
		return fmt.Errorf("expected the parameters %q and %q together: the name of an index and a key in it", paramIndex, paramValue)
	}
	return q.checkOneSelection()
}

// checkOneSelection refuses selections that would have to be combined.
func (q query) checkOneSelection() error {
	var chosen []string
	for _, name := range []string{paramKey, paramIndex, paramStatus} {
		if q.has(name) {
			chosen = append(chosen, name)
		}
	}
	if len(chosen) > 1 {
		return fmt.Errorf("rows are selected by %s, expected one of them", strings.Join(chosen, " and "))
	}
	return nil
}
