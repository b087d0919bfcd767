package hold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
)

// Change is a field whose actual value differs from the desired one.
type Change struct {
	Field string `json:"field"`
	Is    string `json:"is"`   // empty: absent
	Want  string `json:"want"` // empty: to be removed
}

// Observation compares rows with an observed table: see Observes in package reconciler.
type Observation struct {
	Table *store.Table
	// Rows yields the rows that an observed row is about.
	Rows    func(txn store.ReadTxn, observed *store.Entry, yield func(store.Query) bool)
	Compare func(txn store.ReadTxn, row *store.Entry) []Change
}

// Check returns an error if the observation is not declared properly.
func (o *Observation) Check() error {
	switch {
	case o.Compare == nil:
		return errors.New("the function that compares is not set")
	case o.Table == nil:
		return errors.New("the table is not set")
	case o.Rows == nil:
		return errors.New("the function that names rows is not set")
	}
	return nil
}

// Reliable reports whether the absence of an observed row means that there is no such object.
func (o *Observation) Reliable(txn store.ReadTxn) bool {
	if initialized, _ := o.Table.Initialized(txn); !initialized {
		return false // not initialized, or dropped
	}
	for _, s := range o.Table.Sources(txn) {
		if s.Incomplete != "" {
			return false
		}
	}
	return true
}

// dropped reports whether nothing will ever be observed again.
func (o *Observation) dropped(txn store.ReadTxn) bool {
	initialized, _ := o.Table.Initialized(txn)
	return !initialized && len(o.Table.Sources(txn)) == 0
}

// Differs returns how a row differs from the observed state.
func (o *Observation) Differs(txn store.ReadTxn, row *store.Entry) (changes []Change, err error) {
	err = pool.Guard(func() { changes = o.Compare(txn, row) })
	return changes, err
}

// follow returns a function that calls fn when the observed table changes, from now on.
func (o *Observation) follow(db *store.DB, fn func(store.ReadTxn)) func(context.Context) {
	watch := o.Table.Watch(db.ReadTxn())
	return func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-watch:
				txn := db.ReadTxn()
				watch = o.Table.Watch(txn) // nil once the table has been dropped
				fn(txn)
			}
		}
	}
}

// maxChanges is the number of differences of a row that Differences lists.
const maxChanges = 3

// Differences returns changes as text.
func Differences(changes []Change) string {
	parts := make([]string, 0, maxChanges+1)
	for i, c := range changes {
		if i == maxChanges {
			parts = append(parts, fmt.Sprintf("%d more", len(changes)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s is %q, not %q", c.Field, c.Is, c.Want))
	}
	return strings.Join(parts, ", ")
}

// Listings records when an observed table was last filled by a listing, during which the table
// is incomplete. What a listing finds may be as old as its beginning or as new as its end. For a
// row that was updated in between it is therefore uncertain, and for a row updated later it is
// worthless: only a change observed after the listing, or the next listing, counts. It is safe
// for concurrent use.
type Listings struct {
	mu           sync.Mutex
	began, ended time.Time       // of the last listing; zero: there was none
	news         map[string]bool // rows observed since it ended, by encoded key

	known   bool            // the table was complete once
	running bool            // a listing runs
	during  map[string]bool // rows updated while it runs, by encoded key
}

// Begun records that the table is incomplete, so that a listing runs or is about to. The first one does not count, since nothing was
// compared before.
func (s *Listings) Begun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = s.known
}

// Updated records an update of a row. It reports whether to update the row once more, because the last listing ended while the update ran:
// what others did in between may be in neither. If a listing runs, Repeat does so later.
func (s *Listings) Updated(key string, began, ended time.Time) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		if s.during == nil {
			s.during = map[string]bool{}
		}
		s.during[key] = true
		return false
	}
	return !s.began.IsZero() && began.Before(s.ended) && !ended.Before(s.began)
}

// Repeat records that the table is complete, and returns the rows to be updated once more, because they were updated while a listing ran:
// it may have found them as they were before, although they are otherwise by now.
func (s *Listings) Repeat() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys = slices.Sorted(maps.Keys(s.during))
	s.known, s.running, s.during = true, false, nil
	return keys
}

// Ended records a listing.
func (s *Listings) Ended(began, ended time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.ended, s.news = began, ended, map[string]bool{}
}

// Observed records that a change about a row was observed.
func (s *Listings) Observed(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.began.IsZero() {
		s.news[key] = true
	}
}

// Certainty is how the observed state of a row relates to the last operation on the row.
type Certainty uint8

// The kinds of certainty.
const (
	Certain   Certainty = iota // it is newer
	Uncertain                  // it may be older
	Unknown                    // it is older
)

// About returns the certainty for a row whose last operation ended at applied. If that is later
// than now, the clock has been set back since then.
func (s *Listings) About(key string, applied, now time.Time) Certainty {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.began.IsZero() || !applied.After(s.began) || applied.After(now) || s.news[key]:
		return Certain
	case !applied.Before(s.ended):
		return Unknown
	default:
		return Uncertain
	}
}
