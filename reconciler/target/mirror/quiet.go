package mirror

import (
	"errors"
	"sync/atomic"
)

// listTries is how often ListQuietly lists.
const listTries = 5

// ErrChanging is the error of a listing during which there were changes, again and
// again.
var ErrChanging = errors.New("it changes while it is listed, again and again")

// ListQuietly lists until nothing changes meanwhile. It is for what the kernel leaves
// out of a listing, or repeats there, when there are changes, without a word of it.
// drain is that of Config.List, and changes is what Config.Decode counts them with.
// upTo is the number of the last change that the listing has, and all before it.
func ListQuietly[T any](drain func() error, changes *atomic.Uint64, list func() ([]T, error)) (items []T, upTo uint64, err error) {
	for range listTries {
		if err := drain(); err != nil {
			return nil, 0, err
		}
		upTo = changes.Load()
		items, err = list()
		if err := errors.Join(err, drain()); err != nil {
			return nil, 0, err
		}
		if changes.Load() == upTo {
			return items, upTo, nil
		}
	}
	return nil, 0, ErrChanging
}
