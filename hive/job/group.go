package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/internal/lifecycle"
)

// ErrStopped is returned by Add once the hive has begun to stop, or the group's scope has been stopped.
var ErrStopped = errors.New("the job group has been stopped")

// OverdueError is a job that did not end within the stop deadline. It is left running.
type OverdueError struct {
	Job string // with its module
	Err error  // why the wait for it ended
}

func (e *OverdueError) Error() string {
	return fmt.Sprintf("job %s has not ended within the stop deadline: %v", e.Job, e.Err)
}

// Unwrap returns why the wait ended.
func (e *OverdueError) Unwrap() error { return e.Err }

// Group runs jobs. It is injectable; each module has its own. It is safe for concurrent use.
//
// The last 16 completed jobs of a group, and the last 16 failed ones, keep their rows and their health.
type Group interface {
	// Add runs jobs when the hive starts, or at once if it has started. Jobs added while the hive runs stop before the dependencies
	// of their module and after its dependents. If Add fails, it runs none of the jobs. It returns ErrStopped once the stop of the
	// hive has begun, and health.ErrDuplicate if another job of the group has the same name. The name of an ended job may be reused.
	Add(jobs ...Job) error
	// NewScope returns a group nested in this one, which stops with it at the latest. The names of its jobs are prefixed with the
	// name of the scope, and their health is nested in the scope's. It returns the same errors as Add.
	NewScope(name string) (Scope, error)
}

// Scope is a group nested in another one.
type Scope interface {
	Group
	// Stop stops the jobs of the scope and of nested scopes, waits for them until ctx is done, removes their rows and health, and
	// frees the name of the scope. It returns an *OverdueError for each job that has not ended, joined; then it may be called again.
	// It must not be called by a job of the scope: it would wait for itself.
	Stop(ctx context.Context) error
}

// maxEnded is the number of completed jobs, and of failed jobs, that a group remembers.
const maxEnded = 16

// Params are the dependencies of a group.
type Params struct {
	cell.In

	ID        cell.FullModuleID
	Lifecycle cell.Lifecycle
	Health    health.Health
	Logger    *slog.Logger
	Registry  *Registry
}

// NewGroup returns the group of a module. The hive calls it for every module.
func NewGroup(p Params) Group {
	g := newGroup(&p, string(p.ID), p.Health)
	h := cell.Hook{Name: "jobs", OnStart: g.start, OnStop: g.stop}
	if d, ok := p.Lifecycle.(lifecycle.Dynamic); ok {
		d.AppendDynamic(h, func() {
			p.Registry.stopping.Store(true)
			g.enter(stopped)
		})
	} else {
		p.Lifecycle.Append(h)
	}
	return g
}

func newGroup(p *Params, id string, h health.Health) *group {
	return &group{params: p, id: id, health: h, jobs: make(map[string]*runner), scopes: make(map[string]*scope)}
}

type phase int

const (
	waiting phase = iota // for the start
	running
	stopped
)

type group struct {
	params *Params
	id     string // that of its health
	health health.Health

	mu        sync.Mutex
	phase     phase
	jobs      map[string]*runner
	scopes    map[string]*scope
	completed []*runner // the last ones, the oldest first
	failed    []*runner
}

func (g *group) start(context.Context) error {
	g.enter(running)
	return nil
}

// enter changes the phase, including that of nested scopes.
func (g *group) enter(p phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.phase = max(g.phase, p)
	for _, s := range g.scopes {
		s.enter(p)
	}
}

// stop stops the jobs that have no stop hook of their own.
func (g *group) stop(ctx context.Context) error {
	g.enter(stopped)
	err := stopAll(ctx, g.runners(func(r *runner) bool { return !r.placed }))
	g.params.Registry.flush(ctx)
	return err
}

// runners returns the chosen runners, including those of nested scopes.
func (g *group) runners(chosen func(*runner) bool) []*runner {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []*runner
	for _, r := range g.jobs {
		if chosen(r) {
			all = append(all, r)
		}
	}
	for _, s := range g.scopes {
		all = append(all, s.runners(chosen)...)
	}
	return all
}

func (g *group) Add(jobs ...Job) error {
	if err := complete(jobs); err != nil {
		return g.refused("jobs", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase == stopped {
		return g.refused("job "+names(jobs), ErrStopped)
	}
	added, err := g.prepareLocked(jobs)
	if err != nil {
		return err
	}
	if g.phase == running {
		startAll(added)
		return nil
	}
	for _, r := range added {
		r.placed = true
		r.record.wait()
	}
	g.params.Lifecycle.Append(cell.Hook{
		Name:    "job " + names(jobs),
		OnStart: func(context.Context) error { g.startPlaced(added); return nil },
		OnStop:  func(ctx context.Context) error { return stopAll(ctx, added) },
	})
	return nil
}

// complete returns an error for a job that could only panic.
func complete(jobs []Job) error {
	for _, j := range jobs {
		switch {
		case j == nil:
			return errors.New("a job is nil")
		case j.options().idle:
			return fmt.Errorf("job %q has no function", j.options().name)
		}
	}
	return nil
}

func (g *group) refused(what string, err error) error {
	return fmt.Errorf("cannot add %s of %q: %w", what, g.id, err)
}

// duplicateError says health.ErrDuplicate in the words of jobs.
type duplicateError struct {
	name string
	err  error
}

func (e *duplicateError) Error() string {
	return fmt.Sprintf("there is a job, a scope or a part named %q already", e.name)
}

func (e *duplicateError) Unwrap() error { return e.err }

// named returns why a name cannot be used.
func named(name string, err error) error {
	if errors.Is(err, health.ErrDuplicate) {
		return &duplicateError{name, err}
	}
	return err
}

// idOf returns the health id of a job or scope nested in the one with the id above. It is unique, and so is the job's id.
func idOf(h health.Health, above, name string) string {
	if h, ok := h.(interface{ ID() string }); ok {
		return h.ID()
	}
	return health.ID(above, name) // the module replaced the hive's Health
}

// startPlaced starts jobs from their start hook, unless their scope has been stopped.
func (g *group) startPlaced(rs []*runner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase != stopped {
		startAll(rs)
	}
}

// prepareLocked registers all of the jobs or none.
func (g *group) prepareLocked(jobs []Job) ([]*runner, error) {
	added := make([]*runner, 0, len(jobs))
	for _, j := range jobs {
		r, err := g.registerLocked(j)
		if err != nil {
			for _, r := range added {
				g.forgetLocked(r)
			}
			return nil, g.refused(fmt.Sprintf("job %q", j.options().name), named(j.options().name, err))
		}
		added = append(added, r)
	}
	return added, nil
}

func (g *group) registerLocked(j Job) (*runner, error) {
	name := j.options().name
	h, err := g.openLocked(name)
	if err != nil {
		return nil, err
	}
	id := idOf(h, g.id, name)
	r := &runner{
		job: j, group: g, id: id, name: strings.TrimPrefix(id, string(g.params.ID)+"."), health: &jobHealth{inner: h}, done: make(chan struct{}),
	}
	r.health.of = r
	if r.record, err = newRecord(r); err != nil {
		h.Close()
		return nil, err
	}
	g.jobs[name] = r
	return r, nil
}

// openLocked opens the health scope of a job or a scope. An ended job of that name is forgotten.
func (g *group) openLocked(name string) (health.Health, error) {
	if old := g.jobs[name]; old != nil && old.ended() {
		g.forgetLocked(old)
	}
	return g.health.NewScope(name)
}

// forgetLocked removes the row, the health and the name of a job.
func (g *group) forgetLocked(r *runner) {
	delete(g.jobs, r.job.options().name)
	same := func(other *runner) bool { return other == r }
	g.completed = slices.DeleteFunc(g.completed, same)
	g.failed = slices.DeleteFunc(g.failed, same)
	r.health.Close()
	r.record.remove()
}

// ended is called when a job has ended. A job that ended by itself is remembered, in place of the oldest with the same result.
func (g *group) ended(r *runner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(r.done)
	if r.stopped {
		return
	}
	last := &g.completed
	if r.failed {
		last = &g.failed
	}
	if *last = append(*last, r); len(*last) > maxEnded {
		g.forgetLocked((*last)[0])
	}
}

func names(jobs []Job) string {
	var all []string
	for _, j := range jobs {
		all = append(all, fmt.Sprintf("%q", j.options().name))
	}
	return strings.Join(all, ", ")
}
