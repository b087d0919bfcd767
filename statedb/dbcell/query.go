package dbcell

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/statehive/statehive/statedb"
)

// Query parameters of the API.
const (
	paramKey      = "key"
	paramIndex    = "index"
	paramValue    = "value"
	paramPrefix   = "prefix"
	paramFrom     = "from"
	paramTo       = "to"
	paramStatus   = "status"
	paramReverse  = "reverse"
	paramLimit    = "limit"
	paramRevision = "revision"
	paramMemory   = "memory"
	paramWatch    = "watch"
)

// rowParams returns the parameters of GET /v1/tables/{name}.
func rowParams() []string {
	return []string{
		paramKey, paramIndex, paramValue, paramPrefix, paramFrom, paramTo, paramStatus, paramReverse, paramLimit,
		paramWatch,
	}
}

// query has the parameters of a request. Each parameter has at most one value.
type query url.Values

func (q query) has(param string) bool   { return url.Values(q).Has(param) }
func (q query) get(param string) string { return url.Values(q).Get(param) }

// parseQuery refuses all parameters but the allowed ones.
func parseQuery(raw string, allowed []string) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("query %q: %w", raw, err)
	}
	q := query(values)
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(allowed, name) {
			return nil, fmt.Errorf("unknown parameter %q; there are: %s", name, strings.Join(allowed, ", "))
		}
		if n := len(q[name]); n > 1 {
			return nil, fmt.Errorf("parameter %q is given %d times, expected once", name, n)
		}
	}
	return q, nil
}

// flag reports whether a parameter that needs no value is set.
func (q query) flag(param string) (bool, error) {
	switch text := q.get(param); text {
	case "", "true":
		return q.has(param), nil
	case "false":
		return false, nil
	default:
		return false, fmt.Errorf("parameter %q is %q, expected true or false", param, text)
	}
}

// revision returns the revision since which a row must not have changed to be replaced or deleted.
func (q query) revision() (revision statedb.Revision, given bool, err error) {
	if !q.has(paramRevision) {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(q.get(paramRevision), 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("parameter %q is %q, expected the revision of a row", paramRevision, q.get(paramRevision))
	}
	return statedb.Revision(n), true, nil
}

// limit returns the maximum number of rows; given is false if there is none.
func (q query) limit() (n int, given bool, err error) {
	if !q.has(paramLimit) {
		return 0, false, nil
	}
	n, err = strconv.Atoi(q.get(paramLimit))
	if err != nil || n < 0 {
		return 0, false, fmt.Errorf("parameter %q is %q, expected a number of rows", paramLimit, q.get(paramLimit))
	}
	return n, true, nil
}

// checkSelection refuses combinations of selections, and incomplete selections.
func (q query) checkSelection() error {
	var chosen []string
	for _, name := range []string{paramKey, paramValue, paramPrefix, paramFrom, paramStatus} {
		if q.has(name) {
			chosen = append(chosen, name)
		}
	}
	switch {
	case len(chosen) > 1:
		return fmt.Errorf("rows are selected by %s, expected one of them", strings.Join(chosen, " and "))
	case q.has(paramTo) && !q.has(paramFrom):
		return fmt.Errorf("parameter %q needs %q, the first key", paramTo, paramFrom)
	case q.has(paramIndex) && (len(chosen) == 0 || q.has(paramKey) || q.has(paramStatus)):
		return fmt.Errorf("parameter %q needs one of %s, %s and %s, which select keys of the index", paramIndex, paramValue, paramPrefix, paramFrom)
	case q.has(paramValue) && !q.has(paramIndex):
		return fmt.Errorf("parameter %q needs %q, the index of the key", paramValue, paramIndex)
	}
	return nil
}
