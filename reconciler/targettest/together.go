package targettest

import (
	"errors"
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
// Nobody else works on it: nothing of it may change but by its own operations.
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

// makeAndChange makes what is absent, and goes through all samples of its key.
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
		return errors.New("Update finds it there, expected it to be absent: it was deleted")
	case !changed && result.Changed:
		return errors.New("Update changes it, expected it to be in sync: Update was just done with it")
	}
	return nil
}

// pause lets other goroutines go on, and virtual time go by.
func pause() { <-time.After(time.Microsecond) }

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
		default:
			pause()
		}
	}
}
