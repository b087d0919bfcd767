package hive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/statehive/statehive/hive/cell"
)

// Shutdowner ends the hive from within. It is injectable and safe for concurrent use.
type Shutdowner interface {
	// Shutdown has Run stop the hive and return err, which may be nil. It cuts a start short. The first call counts. It does not wait.
	Shutdown(err error)
}

// AbortError is returned by Run when a second signal came before the hive had stopped. Hooks and jobs may still be running, so
// the process should exit.
type AbortError struct {
	Signal os.Signal // the second one
}

func (e *AbortError) Error() string { return fmt.Sprintf("aborted by a second signal: %v", e.Signal) }

// errInterrupted is the cause of a start that a signal has cut short.
var errInterrupted = errors.New("interrupted by a signal")

type shutdown struct {
	done chan struct{}

	mu   sync.Mutex
	cuts func(error) // cuts the start short; nil before
	err  error       // may be read when done is closed
}

func newShutdown() *shutdown { return &shutdown{done: make(chan struct{})} }

func (s *shutdown) Shutdown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.called() {
		return
	}
	s.err = err
	if s.cuts != nil {
		s.cuts(ErrShutdown)
	}
	close(s.done)
}

// called reports whether Shutdown has been called.
func (s *shutdown) called() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// cut has the first Shutdown call fn, which is called at once if that has been.
func (s *shutdown) cut(fn func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts = fn
	if s.called() {
		fn(ErrShutdown)
	}
}

// caused reports whether a start failed for no other reason than the Shutdown.
func (s *shutdown) caused(err error) bool {
	return s.called() && !errors.Is(err, cell.ErrOverdue) && (errors.Is(err, ErrShutdown) || errors.Is(err, context.Canceled))
}

// reason is the error of Shutdown, if that has been called.
func (s *shutdown) reason() error {
	if s.called() {
		return s.err
	}
	return nil
}

// Run starts the hive, waits for a signal, the end of ctx or Shutdown, stops it, and returns the error of Shutdown joined with
// those of starting and stopping. A signal or Shutdown also cuts a start short. The second signal makes Run return an *AbortError at
// once. SIGHUP has a started hive reload (see Reloads), but stops it like another signal if the terminal that it was run from is gone.
func (h *Hive) Run(ctx context.Context) error {
	hangup := hasTerminal() && !signal.Ignored(syscall.SIGHUP) // as nohup has it ignored
	signals, release := h.signals()
	defer release()
	result := make(chan error, 1)
	interrupt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reload := make(chan struct{}, 1)
	go func() { result <- h.run(interrupt, reload) }()
	for interrupted := false; ; {
		select {
		case err := <-result:
			return err
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP && (!hangup || hasTerminal()):
				select {
				case reload <- struct{}{}:
				default: // it is going to
				}
			case interrupted:
				return &AbortError{Signal: s}
			default:
				h.options.Logger.Info("Stopping; a second signal aborts", "signal", s)
				cancel(errInterrupted)
				interrupted = true
			}
		}
	}
}

// hasTerminal reports whether the process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	_ = f.Close() // nothing was written
	return true
}

// run is the life of the hive until ctx is done.
func (h *Hive) run(ctx context.Context, reload <-chan struct{}) error {
	began := time.Now()
	failed, stopped := h.start(ctx)
	if failed != nil {
		if h.shutdown.caused(failed) {
			failed = nil
		}
		return errors.Join(h.shutdown.reason(), failed, stopped)
	}
	h.options.Logger.Info("Started", "name", h.options.Name, "duration", time.Since(began))
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false
		case <-h.shutdown.done:
			running = false
		case <-reload:
			h.reload(ctx)
		}
	}
	began = time.Now()
	err := h.Stop(context.WithoutCancel(ctx))
	h.options.Logger.Info("Stopped", "name", h.options.Name, "duration", time.Since(began))
	return errors.Join(h.shutdown.reason(), err)
}

// signals returns those of the options, or those of the process until release is called.
func (h *Hive) signals() (signals <-chan os.Signal, release func()) {
	if h.options.Signals != nil {
		return h.options.Signals, func() {}
	}
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}
