package hive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/internal/lifecycle"
	"github.com/statehive/statehive/hive/job"
)

// SubLifecycles creates parts of a module that can be started and stopped independently while the hive runs. It is injectable; each
// module has its own. It is safe for concurrent use.
type SubLifecycles struct {
	params  job.Params
	parts   *parts        // of the hive
	timeout time.Duration // for the stop after a failed start

	mu    sync.Mutex
	phase phase // parts may be started while it is started
	all   []*SubLifecycle
}

// parts are the sub-lifecycles of all modules. It is safe for concurrent use.
type parts struct {
	mu  sync.Mutex
	all []*SubLifecycle
}

func (p *parts) add(l *SubLifecycle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, l)
}

func (p *parts) list() []*SubLifecycle {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// Scope holds the resources of a part from a start to the next stop.
type Scope struct {
	// Lifecycle accepts hooks during setup. They start in order and stop in reverse.
	Lifecycle cell.Lifecycle
	// Jobs runs jobs whose names are prefixed with the name of the part. Jobs added during setup start after the hooks appended
	// before them; jobs added later stop before all hooks. The stop removes their rows.
	Jobs job.Group
	// Health is nested in the module's scope. The stop closes it.
	Health health.Health
}

func (h *Hive) newSubLifecycles(p job.Params, _ job.Group) *SubLifecycles {
	s := &SubLifecycles{params: p, parts: &h.parts, timeout: h.options.StopTimeout}
	h.lifecycle.For(p.ID).AppendDynamic(cell.Hook{Name: "sub-lifecycles", OnStart: s.start, OnStop: s.stop}, s.close)
	return s
}

// New returns a part, not yet started. It is kept until the hive ends: create it once, and start it as often as needed. Each start
// calls setup with a new scope, to which it appends hooks and adds jobs. If setup fails or panics, so does the start. While started,
// the part has a health scope of this name, so no job, scope or other part of the module may have it. The start of a part with a nil
// setup, or with the name of another part, fails; so does that of the hive, if the part was made before.
func (s *SubLifecycles) New(name string, setup func(ctx context.Context, scope Scope) error) *SubLifecycle {
	l := &SubLifecycle{owner: s, name: name, setup: setup, turn: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case setup == nil:
		l.fault = fmt.Errorf("part %q of module %q has no setup function", name, s.params.ID)
	case slices.ContainsFunc(s.all, func(other *SubLifecycle) bool { return other.name == name }):
		l.fault = fmt.Errorf("module %q has two parts %q", s.params.ID, name)
	}
	s.all = append(s.all, l)
	s.parts.add(l)
	return l
}

func (s *SubLifecycles) start(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = max(s.phase, started)
	var errs []error
	for _, l := range s.all {
		errs = append(errs, l.fault)
	}
	return errors.Join(errs...)
}

// close interrupts running starts and makes later ones fail.
func (s *SubLifecycles) close() {
	for _, l := range s.ending() {
		l.interrupt(0, ErrStopping)
	}
}

// ending makes later starts fail and returns all parts.
func (s *SubLifecycles) ending() []*SubLifecycle {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = ended
	return slices.Clone(s.all)
}

func (s *SubLifecycles) stop(ctx context.Context) error {
	var errs []error
	for _, l := range slices.Backward(s.ending()) {
		errs = append(errs, l.Stop(ctx))
	}
	return errors.Join(errs...)
}

// refusal returns why no part can be started now, or nil.
func (s *SubLifecycles) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.phase {
	case built:
		return ErrNotStarted
	case ended:
		return ErrStopping
	}
	return nil
}

// SubLifecycle is a part of a module. It can be started and stopped any number of times. It stops with the module at the latest,
// before the module's dependencies. It is safe for concurrent use.
type SubLifecycle struct {
	owner *SubLifecycles
	name  string
	setup func(context.Context, Scope) error
	fault error         // why it cannot be started
	turn  chan struct{} // a lock, held by Start and Stop

	mu    sync.Mutex
	cut   context.CancelCauseFunc // cancels the running start
	stops int                     // number of running or blocked calls of Stop
	last  *lifecycle.Lifecycle    // hooks of the latest start, even if stopped

	// Guarded by turn.
	hooks *lifecycle.Lifecycle // nil if stopped
	jobs  job.Scope            // nil if stopped
}

// Start sets up the part, starts its hooks and jobs, and waits for them until ctx is done. If it fails, it stops what it started and
// may be called again. If the part is already started, it does nothing. Its error wraps ErrNotStarted if the hive has not reached this
// module, ErrStopping once the stop of the hive has begun, and context.Canceled if a Stop of the part interrupts it. It must not be
// called by setup, a hook or a job of the part.
func (l *SubLifecycle) Start(ctx context.Context) error {
	if l.fault != nil {
		return l.fault
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := l.begin(ctx); err != nil {
		return l.failed("start", err)
	}
	defer l.end()
	if err := l.enter(cancel); err != nil {
		return l.failed("start", err)
	}
	defer l.leave()
	if l.hooks != nil {
		return nil
	}
	if err := l.clear(ctx); err != nil {
		return l.failed("start", err)
	}
	if err := l.start(ctx); err != nil {
		if errors.Is(context.Cause(ctx), ErrStopping) && !errors.Is(err, ErrStopping) {
			err = fmt.Errorf("%w: %w", ErrStopping, err)
		}
		cleaning, done := context.WithTimeout(context.WithoutCancel(ctx), l.owner.timeout)
		defer done()
		return l.failed("start", errors.Join(err, l.clear(cleaning)))
	}
	return nil
}

func (l *SubLifecycle) start(ctx context.Context) error {
	h, err := l.owner.params.Health.NewScope(l.name)
	if err != nil {
		return err
	}
	p := l.owner.params
	p.Health, p.Logger = h, p.Logger.With(slog.String("part", l.name))
	l.hooks = lifecycle.New(p.Logger)
	l.mu.Lock()
	l.last = l.hooks
	l.mu.Unlock()
	p.Lifecycle = l.hooks.For(p.ID)
	jobs, started := job.NewScope(p, l.name)
	l.jobs = jobs
	p.Lifecycle.Append(cell.Hook{Name: "setup of " + l.name, OnStart: func(ctx context.Context) error {
		err := l.setup(ctx, Scope{Lifecycle: p.Lifecycle, Jobs: jobs, Health: h})
		p.Lifecycle.Append(started)
		return err
	}})
	return l.hooks.Start(ctx)
}

// Stop stops the jobs and hooks of the part and waits for them until ctx is done. It interrupts a running start. If the part is not
// started, it does nothing. It returns all errors of hooks, joined, and a *job.OverdueError for each job that has not ended; the next
// Start or Stop waits for such jobs again. It must not be called by setup, a hook or a job of the part.
func (l *SubLifecycle) Stop(ctx context.Context) error {
	l.interrupt(1, errCut)
	defer l.interrupt(-1, nil)
	if err := l.begin(ctx); err != nil {
		return l.failed("stop", err)
	}
	defer l.end()
	if err := l.clear(ctx); err != nil {
		return l.failed("stop", err)
	}
	return nil
}

// clear stops the hooks and jobs that are running.
func (l *SubLifecycle) clear(ctx context.Context) error {
	var errs []error
	if l.hooks != nil {
		errs = append(errs, l.hooks.Stop(ctx))
		l.hooks = nil
	}
	if l.jobs != nil {
		err := l.jobs.Stop(ctx)
		if err == nil {
			l.jobs = nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// begin acquires turn, if it is free even if ctx is done: after the deadline, the stop hooks are still called. end releases it.
func (l *SubLifecycle) begin(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *SubLifecycle) end() { <-l.turn }

// errCut is the cause of a start that Stop interrupts.
var errCut = fmt.Errorf("it is being stopped: %w", context.Canceled)

// enter registers cut to be called by Stop until leave, or fails if the part cannot be started now.
func (l *SubLifecycle) enter(cut context.CancelCauseFunc) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.owner.refusal(); err != nil {
		return err
	}
	if l.stops > 0 {
		return errCut
	}
	l.cut = cut
	return nil
}

func (l *SubLifecycle) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = nil
}

// interrupt adds to the number of stops and, if there is a cause, interrupts a running start.
func (l *SubLifecycle) interrupt(stops int, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops += stops
	if l.cut != nil && cause != nil {
		l.cut(cause)
	}
}

// reports returns the reports of the hooks of the latest start.
func (l *SubLifecycle) reports() []lifecycle.Report {
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	if last == nil {
		return nil
	}
	return last.Reports()
}

func (l *SubLifecycle) failed(action string, err error) error {
	return fmt.Errorf("%s of part %q of module %q: %w", action, l.name, l.owner.params.ID, err)
}
