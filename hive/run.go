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
	// Shutdown makes Run stop the hive and return err, which may be nil. It interrupts a start. Only the first call has an effect.
	// It does not wait for the stop.
	Shutdown(err error)
}

// AbortError is returned by Run when a second signal arrives before the hive has stopped. Hooks and jobs may still be running, so the
// process should exit.
type AbortError struct {
	Signal os.Signal // the second one
}

func (e *AbortError) Error() string { return fmt.Sprintf("aborted by a second signal: %v", e.Signal) }

// errInterrupted is the cause of cancellation by a signal.
var errInterrupted = errors.New("interrupted by a signal")

type shutdown struct {
	done chan struct{}

	mu   sync.Mutex
	cuts func(error) // interrupts the start, or ends the wait for the stop; nil before the start
	err  error       // may be read once done is closed
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

// cut makes the first Shutdown call fn, or calls it now if Shutdown has been called.
func (s *shutdown) cut(fn func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts = fn
	if s.called() {
		fn(ErrShutdown)
	}
}

// caused reports whether a start failed only because of Shutdown.
func (s *shutdown) caused(err error) bool {
	return s.called() && !errors.Is(err, cell.ErrOverdue) && (errors.Is(err, ErrShutdown) || errors.Is(err, context.Canceled))
}

// reason returns the argument of Shutdown, or nil if it has not been called.
func (s *shutdown) reason() error {
	if s.called() {
		return s.err
	}
	return nil
}

// Run starts the hive, waits for a signal, the end of ctx or Shutdown, and stops it. It returns the error given to Shutdown joined
// with those of the start and the stop. A signal or Shutdown also interrupts a start. A second signal makes Run return an
// *AbortError at once. SIGHUP makes a started hive reload (see Reloads), but stops it if its controlling terminal is gone.
// Writing to standard output or error after its reader has gone, such as a process that collects the log, does not end the process.
func (h *Hive) Run(ctx context.Context) error {
	hangup := hasTerminal() && !signal.Ignored(syscall.SIGHUP) // nohup ignores it
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
				default: // one is pending
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

// run starts the hive, runs it until ctx is done or Shutdown is called, and stops it.
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
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.shutdown.cut(cancel)
	for running.Err() == nil {
		select {
		case <-running.Done():
		case <-reload:
			h.reload(running)
		}
	}
	began = time.Now()
	err := h.Stop(context.WithoutCancel(ctx))
	h.options.Logger.Info("Stopped", "name", h.options.Name, "duration", time.Since(began))
	return errors.Join(h.shutdown.reason(), err)
}

// signals returns the signals of the options, or else those of the process until release is called.
func (h *Hive) signals() (signals <-chan os.Signal, release func()) {
	if h.options.Signals != nil {
		return h.options.Signals, func() {}
	}
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// Go ends a process that writes to standard output or error when nobody reads it, unless the program handles SIGPIPE.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	return c, func() { signal.Stop(c); signal.Stop(pipe) }
}
