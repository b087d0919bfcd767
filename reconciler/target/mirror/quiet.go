package mirror

import (
	"errors"
	"sync/atomic"
	"time"
)

// ListQuietly lists at most listTries times, and for about listTime.
const (
	listTries = 20
	listTime  = 10 * time.Second
)

// ErrChanging is the error of [ListQuietly] when there were changes during each listing.
var ErrChanging = errors.New("every listing was interrupted by changes")

// ListQuietly repeats a listing until nothing changes meanwhile. It is for objects that the kernel
// silently skips or repeats in a listing when others change, unless the listing is whole: made in one step. drain is the argument of
// Config.List, and changes is the counter of notifications that Config.Decode increments. The
// listing includes all changes up to number upTo.
func ListQuietly[T any](drain func() error, changes *atomic.Uint64, list func() (items []T, whole bool, err error)) (items []T, upTo uint64, err error) {
	for began, n := time.Now(), 0; n < listTries && (n == 0 || time.Since(began) < listTime); n++ {
		if err := drain(); err != nil {
			return nil, 0, err
		}
		upTo = changes.Load()
		var whole bool
		items, whole, err = list()
		if err := errors.Join(err, drain()); err != nil {
			return nil, 0, err
		}
		if whole || changes.Load() == upTo {
			return items, upTo, nil
		}
	}
	return nil, 0, ErrChanging
}
