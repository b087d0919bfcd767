package route

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// listings caches recent listings of routing tables. Rows that are looked up together share
// a listing, and so do rows that fail repeatedly because others hold their keys.
type listings struct {
	mu      sync.Mutex
	byTable map[listed]listing
}

// listed identifies a listing: the routes of a family in a table.
type listed struct {
	family Family
	table  Table
}

// listing has the states of declared keys and of some others. Routes with all other keys, of which there may be millions, are dropped as they are read.
type listing struct {
	at     time.Time // start time of the listing
	took   time.Duration
	routes int // that the kernel listed
	also   map[Key]struct{}
	states map[Key]state
	err    error // why there are none
}

const (
	// listingLife is how long a listing is kept, or longer if it is used for longer.
	listingLife = 5 * time.Second
	// listingShare is how much longer than it took a listing is used, up to maxListingAge.
	listingShare  = 10
	maxListingAge = 30 * time.Second
	// manyRoutes is the number of routes in a table from which on a listing of it is used so long in any case.
	manyRoutes = 10_000
)

// usable returns how long a listing is used.
func (l listing) usable() time.Duration { return usable(l.took) }

func usable(took time.Duration) time.Duration { return min(listingShare*took, maxListingAge) }

// isDeclared reports whether a row has a key, or may have it.
func (t *Target) isDeclared(key Key) bool { return t.config.Declared == nil || t.config.Declared(key) }

// lookUp returns the routes that have a key, from a listing that began after since or from a
// new one, which other keys share.
func (t *Target) lookUp(ctx context.Context, key Key, since time.Time, others ...Key) (state, error) {
	t.lists.mu.Lock()
	defer t.lists.mu.Unlock()
	which := listed{key.family(), key.Table}
	l, known := t.lists.byTable[which]
	if _, is := l.also[key]; !known || l.at.Before(since) || !is && !t.isDeclared(key) {
		l = listing{at: time.Now(), also: map[Key]struct{}{key: {}}}
		for _, other := range others {
			l.also[other] = struct{}{}
		}
		l.states, l.err = t.listStates(ctx, which, func(key Key) bool {
			l.routes++
			_, is := l.also[key]
			return is || t.isDeclared(key)
		})
		if ctx.Err() != nil {
			return state{}, l.err
		}
		l.took = time.Since(l.at)
		if t.lists.byTable == nil {
			t.lists.byTable = map[listed]listing{}
		}
		t.lists.byTable[which] = l
		time.AfterFunc(max(listingLife, l.usable()), func() { t.lists.forget(which, l.at) })
	}
	return l.states[key], l.err
}

// lately returns the earliest start of a listing that is recent enough to find out who holds
// a taken key. Listing again would cost more than it is worth.
func (t *Target) lately(key Key) time.Time {
	t.lists.mu.Lock()
	defer t.lists.mu.Unlock()
	l := t.lists.byTable[listed{key.family(), key.Table}]
	if _, told := l.states[key]; !told {
		return time.Now()
	}
	return time.Now().Add(-l.usable())
}

// sparingly returns since, or an earlier time if a table of many routes was listed lately. It returns an error if that listing says nothing about the
// key: others, as by router advertisements, may make any number of routes, and change those with our keys all the time.
func (t *Target) sparingly(key Key, since time.Time) (time.Time, error) {
	t.lists.mu.Lock()
	defer t.lists.mu.Unlock()
	l := t.lists.byTable[listed{key.family(), key.Table}]
	wait := time.Until(l.at.Add(l.usable()))
	if l.routes < manyRoutes || wait <= 0 || !l.at.Before(since) {
		return since, nil
	}
	if _, told := l.states[key]; told {
		return l.at, nil
	}
	outcome := ""
	if l.err != nil {
		outcome = fmt.Sprintf(", and failed (%v)", l.err)
	}
	return since, fmt.Errorf("route %s: its table has %d routes, and listing them took %v%s: it is listed again in %v",
		key, l.routes, l.took.Round(time.Millisecond), outcome, wait.Round(time.Millisecond))
}

// forget drops what is known about a key whose routes are about to change or have just changed.
func (t *Target) forget(key Key) { t.forgetIf(key, func(state) bool { return true }) }

// forgetIf drops what is known about a key if that is known to be outdated.
func (t *Target) forgetIf(key Key, is func(state) bool) {
	t.lists.mu.Lock()
	defer t.lists.mu.Unlock()
	states := t.lists.byTable[listed{key.family(), key.Table}].states
	if s, told := states[key]; told && is(s) {
		delete(states, key)
	}
}

func (l *listings) forget(which listed, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byTable[which].at.Equal(at) {
		delete(l.byTable, which)
	}
}

// listStates lists the routes of a routing table whose keys some accepts, grouped by keys.
func (t *Target) listStates(ctx context.Context, which listed, some func(Key) bool) (map[Key]state, error) {
	states := map[Key]state{}
	routes, err := t.listSome(ctx, which, 0, some)
	for _, r := range routes {
		s := states[r.Key]
		switch {
		case r.protocol != Protocol && r.tos == 0: // a route with a TOS coexists with ours
			s.foreign = append(s.foreign, r)
			s.behind = s.behind || !r.Dead && (r.preference > 0 || len(s.ours) == 0 && r.preference == 0)
		case r.protocol == Protocol && !slices.ContainsFunc(s.ours, r.same):
			s.ours = append(s.ours, r)
		}
		states[r.Key] = s
	}
	return states, err
}
