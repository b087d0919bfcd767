package dbcell

import (
	"context"
	"errors"
	"net/http"

	"github.com/statehive/statehive/statedb"
)

// httpStatus returns the HTTP status for an error. It is 400 for all errors in the request itself.
func httpStatus(err error) int {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge
	}
	for status, matching := range map[int][]error{
		http.StatusNotFound:           {statedb.ErrUnknownTable, statedb.ErrDropped, statedb.ErrNotFound},
		http.StatusForbidden:          {statedb.ErrNotWritable},
		http.StatusConflict:           {statedb.ErrConflict, statedb.ErrNotUnique},
		http.StatusServiceUnavailable: {context.DeadlineExceeded},
	} {
		for _, target := range matching {
			if errors.Is(err, target) {
				return status
			}
		}
	}
	return http.StatusBadRequest
}
