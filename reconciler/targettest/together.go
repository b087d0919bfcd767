package targettest

import (
	"fmt"
	"sync"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// together works on all keys at once, as a reconciler with many workers does,
// and observes meanwhile. It sees more under the race detector.
func together[Obj any](s *session[Obj]) {
	var failed failures
	s.must("operations on different keys at once", func() error {
		var workers, observers sync.WaitGroup
		for _, row := range s.Rows {
			workers.Go(func() { failed.add(s.Key(row), s.work(row)) })
		}
		stop := make(chan struct{})
		if observer, ok := s.target.(reconciler.Observer[Obj]); ok {
			observers.Go(func() { failed.add("Observe", s.observeUntil(stop, observer)) })
		}
		workers.Wait()
		close(stop)
		observers.Wait()
		return nil
	})
	for _, failure := range failed.all {
		s.t.Errorf("while others worked on other keys: %s", failure)
	}
	if s.t.Failed() {
		return
	}
	for _, row := range s.Rows {
		s.present[s.Key(row)] = true
	}
	for _, row := range s.Rows {
		s.wantDiff(row, false, "it was brought about while others worked on other keys")
		s.wantUpdate(row, false, "it was brought about while others worked on other keys")
	}
	s.wantObserved()
}

// failures are errors of several goroutines. It is safe for concurrent use.
type failures struct {
	mu  sync.Mutex
	all []string
}

func (f *failures) add(what string, err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Sprintf("%s: %v", what, err))
}

// work does what there is to do with a row, some times, and leaves it there.
func (s *session[Obj]) work(row Obj) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, stack())
		}
	}()
	ctx := s.t.Context()
	for range 5 {
		for _, sample := range append(s.samplesOf(row), row) {
			if _, err := s.target.Update(ctx, s.Snapshot(), sample); err != nil {
				return fmt.Errorf("Update: %w", err)
			}
		}
		if differ, ok := s.target.(reconciler.Differ[Obj]); ok {
			if _, err := differ.Diff(ctx, s.Snapshot(), row); err != nil {
				return fmt.Errorf("Diff: %w", err)
			}
		}
		if err := s.target.Delete(ctx, s.Snapshot(), row); err != nil {
			return fmt.Errorf("Delete: %w", err)
		}
	}
	_, err = s.target.Update(ctx, s.Snapshot(), row)
	return err
}

// observeUntil observes again and again, at least once.
func (s *session[Obj]) observeUntil(stop <-chan struct{}, observer reconciler.Observer[Obj]) error {
	for {
		for _, err := range observer.Observe(s.t.Context()) {
			if err != nil {
				return err
			}
		}
		select {
		case <-stop:
			return nil
		case <-time.After(time.Microsecond): // lets virtual time go by
		}
	}
}
