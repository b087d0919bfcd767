package mirror

import (
	"context"
	"errors"
	"sync"
	"syscall"
)

// maxPending bounds the events that wait to be applied. More are dropped, as the
// kernel does: the table is listed again.
const maxPending = 1 << 18

// stream is what a subscription has received, and how much of it has been applied.
// Any goroutine that wants to catch up with the kernel may receive: the
// events keep their order.
type stream[Event any] struct {
	subscription Subscription
	decode       func(syscall.NetlinkMessage) (Event, bool)
	signal       chan struct{} // has a token if there are events to take

	mu       sync.Mutex
	pending  []Event
	spare    []Event // memory for the next pending
	lost     bool
	received uint64        // number of events, including dropped ones
	done     uint64        // number of events that were applied
	advanced chan struct{} // closed and replaced when done grows
	ended    bool
}

func newStream[Event any](s Subscription, decode func(syscall.NetlinkMessage) (Event, bool)) *stream[Event] {
	return &stream[Event]{subscription: s, decode: decode, signal: make(chan struct{}, 1), advanced: make(chan struct{})}
}

// run receives until the subscription fails.
func (s *stream[Event]) run() error {
	for {
		err := s.subscription.Wait()
		if err == nil {
			_, err = s.drain()
		}
		if err != nil {
			s.end()
			return err
		}
	}
}

// drain receives the pending notifications, and returns the number of the last event.
func (s *stream[Event]) drain() (position uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.received
	for {
		err = s.subscription.Drain(s.receive)
		if !errors.Is(err, syscall.ENOBUFS) {
			break
		}
		s.lose()
	}
	if s.received > before {
		select {
		case s.signal <- struct{}{}:
		default:
		}
	}
	return s.received, err
}

func (s *stream[Event]) receive(message syscall.NetlinkMessage) {
	event, ok := s.decode(message)
	switch {
	case !ok:
	case len(s.pending) >= maxPending:
		s.lose()
	default:
		s.pending = append(s.pending, event)
		s.received++
	}
}

// lose drops the pending events: a listing will replace them.
func (s *stream[Event]) lose() {
	s.pending, s.lost = s.pending[:0], true
	s.received++
}

// take returns the events that were received and not taken yet, and the number of the last event.
func (s *stream[Event]) take() (events []Event, lost bool, position uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, lost = s.pending, s.lost
	s.pending, s.spare, s.lost = s.spare[:0], nil, false
	return events, lost, s.received
}

// applied gives back the memory of the events that take returned, after they have been applied.
func (s *stream[Event]) applied(events []Event, position uint64) {
	clear(events)
	s.mu.Lock()
	defer s.mu.Unlock()
	const kept = 1 << 12 // so that one burst does not keep its memory for ever
	if cap(events) <= kept {
		s.spare = events[:0]
	}
	s.done = position
	close(s.advanced)
	s.advanced = make(chan struct{})
}

// drop takes the received events without applying them.
func (s *stream[Event]) drop() {
	events, _, position := s.take()
	s.applied(events, position)
}

// end wakes those who wait for events that will never be applied.
func (s *stream[Event]) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	close(s.advanced)
	s.advanced = make(chan struct{})
}

// sync waits until all events that were pending at the time of the call are applied, and
// reports whether they are.
func (s *stream[Event]) sync(ctx context.Context) bool {
	position, err := s.drain()
	for err == nil {
		s.mu.Lock()
		done, ended, advanced := s.done >= position, s.ended, s.advanced
		s.mu.Unlock()
		if done || ended {
			return done
		}
		select {
		case <-ctx.Done():
			return false
		case <-advanced:
		}
	}
	return false
}
