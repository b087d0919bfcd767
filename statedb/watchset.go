package statedb

import (
	"context"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"
)

// A WatchSet is a set of watches to wait for together: channels returned by the
// …Watch methods of a [Table], by [Table.Initialized] and by [Cursor.Watch], or any
// other channel that is eventually closed and on which nothing is sent, such as a
// context's Done. A nil channel never closes, and is not added.
//
// The zero value is an empty set. A WatchSet is safe for concurrent use and must
// not be copied after its first use.
type WatchSet struct {
	mu      sync.Mutex
	watches map[<-chan struct{}]struct{}
}

// Add adds watches to the set. If a watch has closed already, the next
// [WatchSet.Wait] returns it immediately.
func (s *WatchSet) Add(watches ...<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches == nil {
		s.watches = make(map[<-chan struct{}]struct{}, len(watches))
	}
	for _, watch := range watches {
		if watch != nil {
			s.watches[watch] = struct{}{}
		}
	}
}

// Merge adds the watches of another set, which is not changed.
func (s *WatchSet) Merge(other *WatchSet) { s.Add(other.all()...) }

// Has reports whether a watch is in the set.
func (s *WatchSet) Has(watch <-chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.watches[watch]
	return ok
}

// Delete removes watches from the set. Watches that are not in it are ignored.
func (s *WatchSet) Delete(watches ...<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, watch := range watches {
		delete(s.watches, watch)
	}
}

// Clear removes all watches from the set.
func (s *WatchSet) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.watches)
}

func (s *WatchSet) all() []<-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]<-chan struct{}, 0, len(s.watches))
	for watch := range s.watches {
		all = append(all, watch)
	}
	return all
}

// maxQuietPeriods is the maximum number of quiet periods for which Wait collects watches.
const maxQuietPeriods = 10

// Wait blocks until at least one watch of the set has closed. It removes the closed
// watches from the set and returns them, in no particular order.
//
// After the first watch has closed, Wait collects more until quiet has passed without
// another one closing, until ten times quiet has passed in all, or until no open watch
// is left, whichever comes first. So watches that close all the time do not keep it from
// returning. If quiet is not positive, it returns the closed watches without waiting for
// more.
//
// When ctx ends, Wait returns its error together with the watches that have closed
// by then, if any; these are removed from the set too. If the set is empty, Wait blocks
// until ctx ends.
//
// Wait uses the watches that are in the set when it is called: watches that are added
// or deleted meanwhile count from the next call on. If several calls wait for the same
// watch concurrently, each of them returns it. A call takes time and memory in
// proportion to the size of the set, and leaves no goroutine behind.
func (s *WatchSet) Wait(ctx context.Context, quiet time.Duration) (closed []<-chan struct{}, err error) {
	watches := s.all()
	waitForClosings(ctx, watches, quiet)
	for _, watch := range watches {
		if isClosed(watch) {
			closed = append(closed, watch)
		}
	}
	s.Delete(closed...)
	return closed, ctx.Err()
}

// waitForClosings blocks until Wait has to return.
func waitForClosings(ctx context.Context, watches []<-chan struct{}, quiet time.Duration) {
	closings := make(chan int)
	done := make(chan struct{})
	var reporters sync.WaitGroup
	defer reporters.Wait()
	defer close(done)
	for part := range slices.Chunk(watches, watchesPerSelect) {
		reporters.Go(func() { reportClosings(part, closings, done) })
	}

	open := len(watches)
	select {
	case <-ctx.Done():
		return
	case n := <-closings:
		open -= n
	}
	if quiet <= 0 {
		return
	}
	quiet = min(quiet, math.MaxInt64/maxQuietPeriods)
	silence, limit := time.NewTimer(quiet), time.NewTimer(maxQuietPeriods*quiet)
	defer silence.Stop()
	defer limit.Stop()
	for open > 0 {
		select {
		case <-ctx.Done():
			return
		case <-silence.C:
			return
		case <-limit.C:
			return
		case n := <-closings:
			open -= n
			silence.Reset(quiet)
		}
	}
}

// watchesPerSelect is how many watches a goroutine waits for. A select locks all of its
// channels for a moment, so a large one would delay the goroutines that close them. It can
// have at most 65,536 channels.
const watchesPerSelect = 128

// reportClosings waits for watches to close and sends the number of closed ones each time
// that some close, until all have closed or done closes.
func reportClosings(watches []<-chan struct{}, closings chan<- int, done <-chan struct{}) {
	cases := make([]reflect.SelectCase, 0, len(watches)+1)
	for _, watch := range watches {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(watch)})
	}
	cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(done)})
	for open := len(watches); open > 0; {
		if chosen, _, _ := reflect.Select(cases); chosen == len(watches) {
			return
		}
		closed := 0
		for i, watch := range watches {
			if cases[i].Chan.IsValid() && isClosed(watch) {
				cases[i].Chan = reflect.Value{} // select ignores it from now on
				closed++
			}
		}
		open -= closed
		select {
		case closings <- closed:
		case <-done:
			return
		}
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
