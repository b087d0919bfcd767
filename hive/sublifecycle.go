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

// SubLifecycles makes parts of a module that are started and stopped on their own while the hive runs. It is injectable; each
// module has its own. It is safe for concurrent use.
type SubLifecycles struct {
	params  job.Params
	parts   *parts        // of the hive
	timeout time.Duration // of the stop after a failed start

	mu   sync.Mutex
	open bool // the hive runs
	all  []*SubLifecycle
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

// Scope is what a part has for itself from one start to the next stop.
type Scope struct {
	// Lifecycle takes hooks while the part is set up, which start in order and stop in reverse.
	Lifecycle cell.Lifecycle
	// Jobs has the name of the part before the names of jobs. Those that are added while the part is set up start after the hooks
	// that were appended before them; those added later stop before all hooks. Their rows are removed by the stop.
	Jobs job.Group
	// Health is below that of the module. It is closed by the stop.
	Health health.Health
}

func (h *Hive) newSubLifecycles(p job.Params, _ job.Group) *SubLifecycles {
	s := &SubLifecycles{params: p, parts: &h.parts, timeout: h.options.StopTimeout}
	hook := cell.Hook{Name: "sub-lifecycles", OnStart: s.start, OnStop: s.stop}
	if d, ok := p.Lifecycle.(lifecycle.Dynamic); ok {
		d.AppendDynamic(hook, s.close)
	} else {
		p.Lifecycle.Append(hook)
	}
	return s
}

// New makes a part that is not started. At each start setup is called, with a scope of its own: it appends hooks and adds jobs.
// An error of setup, also a panic, is one of the start. The name is that of the part's health while it is started, so no job or
// other scope of the module may have it.
func (s *SubLifecycles) New(name string, setup func(ctx context.Context, scope Scope) error) *SubLifecycle {
	l := &SubLifecycle{owner: s, name: name, setup: setup, turn: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, l)
	s.parts.add(l)
	return l
}

func (s *SubLifecycles) start(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
	return nil
}

// close cuts starts short, and refuses others.
func (s *SubLifecycles) close() {
	for _, l := range s.ending() {
		l.interrupt(0)
	}
}

// ending returns all parts, none of which can be started any longer.
func (s *SubLifecycles) ending() []*SubLifecycle {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
	return slices.Clone(s.all)
}

func (s *SubLifecycles) stop(ctx context.Context) error {
	var errs []error
	for _, l := range slices.Backward(s.ending()) {
		errs = append(errs, l.Stop(ctx))
	}
	return errors.Join(errs...)
}

func (s *SubLifecycles) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// SubLifecycle is a part of a module. It is started and stopped any number of times, and stops with the module at the latest,
// before all that the module depends on. It is safe for concurrent use.
type SubLifecycle struct {
	owner *SubLifecycles
	name  string
	setup func(context.Context, Scope) error
	turn  chan struct{} // held by what starts or stops

	mu    sync.Mutex
	cut   context.CancelCauseFunc // of the start that runs
	stops int                     // that run or wait for their turn
	last  *lifecycle.Lifecycle    // the hooks of the newest start, also when they have been stopped

	// What was started; used by who has the turn.
	hooks *lifecycle.Lifecycle // nil if they have been stopped
	jobs  job.Scope            // nil if they have been stopped
}

// Start sets the part up and starts its hooks and jobs, and waits for them until ctx is done. If that fails, what has been started
// is stopped again, and it can be repeated. If the part is started already nothing is done. It fails with ErrNotStarted if the
// hive has not reached this module, or stops, and with an error that wraps context.Canceled if it is cut short by a Stop.
// It must not be called by setup, a hook or a job of the part.
func (l *SubLifecycle) Start(ctx context.Context) error {
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

// Stop stops the jobs and hooks of the part, and waits for them until ctx is done. It cuts a start short that runs. If the part
// is not started nothing is done. It returns all errors of hooks, and *job.OverdueError for jobs that have not ended: then the
// next Start or Stop waits for them again. It must not be called by setup, a hook or a job of the part.
func (l *SubLifecycle) Stop(ctx context.Context) error {
	l.interrupt(1)
	defer l.interrupt(-1)
	if err := l.begin(ctx); err != nil {
		return l.failed("stop", err)
	}
	defer l.end()
	if err := l.clear(ctx); err != nil {
		return l.failed("stop", err)
	}
	return nil
}

// clear stops what there is.
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

// begin takes the turn, which end gives back.
func (l *SubLifecycle) begin(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *SubLifecycle) end() { <-l.turn }

// errCut is the cause of a start that is cut short.
var errCut = fmt.Errorf("it is being stopped: %w", context.Canceled)

// enter has cut called by a stop until leave, unless the part cannot be started now.
func (l *SubLifecycle) enter(cut context.CancelCauseFunc) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.owner.running():
		return ErrNotStarted
	case l.stops > 0:
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

// interrupt adds to the number of stops and cuts short a start that runs.
func (l *SubLifecycle) interrupt(stops int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops += stops
	if l.cut != nil && stops >= 0 {
		l.cut(errCut)
	}
}

// reports are those of the hooks of the newest start.
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
	return fmt.Errorf("%s of %q of module %q: %w", action, l.name, l.owner.params.ID, err)
}
