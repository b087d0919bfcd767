package reconcilercell

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// Parameters of the endpoints, and flags of the commands.
const (
	paramKey    = "key"
	paramWhere  = "where"
	paramStatus = "status"
	paramAll    = "all"
	paramFor    = "for"
	paramRound  = "round"
	paramRate   = "rate"
	paramBurst  = "burst"
)

// Bounds of parameters. Beyond them a reconciler would practically stand still or stay paused for ever.
const (
	maxCount = 1_000_000
	minRate  = 0.001 // operations per second
	maxRate  = 1e9
	maxPause = 366 * 24 * time.Hour
)

// selectionParams are the parameters that select rows. Exactly one of them must be given.
func selectionParams() []string { return []string{paramKey, paramWhere, paramStatus, paramAll} }

// one returns the value of a parameter that must be given once.
func (r request) one(param string) (string, error) {
	if n := len(r.query[param]); n != 1 {
		return "", fmt.Errorf("parameter %q is given %d times, expected once", param, n)
	}
	return r.query.Get(param), nil
}

// selected returns the keys of the selected rows. No keys means all rows, or no row if
// none is true. It is an error if a given key does not exist.
func (r request) selected(ctx context.Context) (keys []string, none bool, err error) {
	var given []string
	for _, param := range selectionParams() {
		if r.query.Has(param) {
			given = append(given, param)
		}
	}
	if len(given) != 1 {
		return nil, false, fmt.Errorf("rows are selected by %d of %s, expected one of them", len(given), strings.Join(selectionParams(), ", "))
	}
	switch given[0] {
	case paramAll:
		return nil, false, nil
	case paramKey:
		keys = r.query[paramKey]
		for _, key := range keys {
			if _, err := r.Explain(ctx, key); err != nil {
				return nil, false, err
			}
		}
	case paramWhere:
		keys, err = r.where()
	default:
		keys, err = r.inStatus()
	}
	return keys, len(keys) == 0, err
}

// where returns the keys of the rows with a key of an index, given as index=key.
func (r request) where() (keys []string, err error) {
	text, err := r.one(paramWhere)
	if err != nil {
		return nil, err
	}
	index, key, found := strings.Cut(text, "=")
	if !found {
		return nil, fmt.Errorf("parameter %q is %q, expected INDEX=KEY", paramWhere, text)
	}
	txn := r.db.ReadTxn()
	table, err := r.db.Table(txn, r.table())
	if err != nil {
		return nil, err
	}
	rows, err := table.List(txn, index, key)
	if err != nil {
		return nil, err
	}
	for row := range rows {
		keys = append(keys, row.Key)
	}
	return keys, nil
}

func (r request) inStatus() ([]string, error) {
	text, err := r.one(paramStatus)
	if err != nil {
		return nil, err
	}
	var kind reconciler.StatusKind
	if err := kind.UnmarshalText([]byte(text)); err != nil {
		return nil, err
	}
	return slices.Clip(r.withStatus(r.db.ReadTxn(), kind)), nil
}

// until returns when a pause ends, or zero if that was not given.
func (r request) until() (time.Time, error) {
	if !r.query.Has(paramFor) {
		return time.Time{}, nil
	}
	text, err := r.one(paramFor)
	if err != nil {
		return time.Time{}, err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxPause {
		return time.Time{}, fmt.Errorf("parameter %q is %q, expected a duration such as 10m, of at most %v", paramFor, text, maxPause)
	}
	return time.Now().Add(d), nil
}

// count returns the value of a parameter that is a positive number, or 0 if it is not given.
func (r request) count(param string) (n int, err error) {
	if !r.query.Has(param) {
		return 0, nil
	}
	text, err := r.one(param)
	if err != nil {
		return 0, err
	}
	n, err = strconv.Atoi(text)
	if err != nil || n < 1 || n > maxCount {
		return 0, fmt.Errorf("parameter %q is %q, expected 1 or more, up to %d", param, text, maxCount)
	}
	return n, nil
}

// perSecond returns the value of a parameter that is a rate.
func (r request) perSecond(param string) (n float64, given bool, err error) {
	if !r.query.Has(param) {
		return 0, false, nil
	}
	text, err := r.one(param)
	if err != nil {
		return 0, false, err
	}
	n, err = strconv.ParseFloat(text, 64)
	if err != nil || n != 0 && !(n >= minRate && n <= maxRate) {
		return 0, false, fmt.Errorf("parameter %q is %q, expected a number that is not negative: 0, or %v to %.0f", param, text, minRate, maxRate)
	}
	return n, true, nil
}
