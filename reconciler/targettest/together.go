package targettest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// together works on all keys concurrently, as a reconciler with many workers does,
// and observes at the same time. The race detector makes it more effective.
func together[Obj any](s *session[Obj]) {
	var failed failures
	s.must("concurrent operations on different keys", func() error {
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
		s.t.Errorf("while other goroutines worked on other keys: %s", failure)
	}
	if s.t.Failed() {
		return
	}
	for _, row := range s.Rows {
		s.present[s.Key(row)] = true
	}
	for _, row := range s.Rows {
		s.wantDiff(row, false, "it was updated while other goroutines worked on other keys")
		s.wantUpdate(row, false, "it was updated while other goroutines worked on other keys")
	}
	s.wantObserved()
}

// failures collects errors of several goroutines. It is safe for concurrent use.
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

// work performs all operations on a row several times, and leaves it applied.
// Only these operations may change the row, because nobody else works on it.
func (s *session[Obj]) work(row Obj) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, stack())
		}
	}()
	for range 5 {
		if err := s.makeAndChange(row); err != nil {
			return err
		}
		if differ, ok := s.target.(reconciler.Differ[Obj]); ok {
			if _, err := differ.Diff(s.t.Context(), s.Snapshot(), row); err != nil {
				return fmt.Errorf("Diff: %w", err)
			}
		}
		if err := s.target.Delete(s.t.Context(), s.Snapshot(), row); err != nil {
			return fmt.Errorf("Delete: %w", err)
		}
		pause()
	}
	return s.expectUpdate(row, true)
}

// makeAndChange applies a row that is absent, and then each of its variants.
func (s *session[Obj]) makeAndChange(row Obj) error {
	for i, sample := range s.samplesOf(row) {
		if i == 0 {
			if err := s.expectUpdate(sample, true); err != nil {
				return err
			}
		} else if _, err := s.target.Update(s.t.Context(), s.Snapshot(), sample); err != nil {
			return fmt.Errorf("Update: %w", err)
		}
		pause()
		if err := s.expectUpdate(sample, false); err != nil {
			return err
		}
	}
	return nil
}

func (s *session[Obj]) expectUpdate(row Obj, changed bool) error {
	result, err := s.target.Update(s.t.Context(), s.Snapshot(), row)
	switch {
	case err != nil:
		return fmt.Errorf("Update: %w", err)
	case changed && !result.Changed:
		return errors.New("Update reports no change, expected a change: the row was deleted")
	case !changed && result.Changed:
		return errors.New("Update reports a change, expected none: the row was just updated")
	}
	return nil
}

// pause lets other goroutines run and virtual time pass.
func pause() { <-time.After(time.Microsecond) }

// observeUntil observes repeatedly until stop is closed, at least once.
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
		default:
			pause()
		}
	}
}
