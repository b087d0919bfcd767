package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
)

// ErrStopped is returned by Add once the group has begun to stop.
var ErrStopped = errors.New("the job group has been stopped")

// OverdueError is a job that did not end within the stop deadline. It is left running.
type OverdueError struct {
	Job string // with its module
	Err error  // why it is not waited for any longer
}

func (e *OverdueError) Error() string {
	return fmt.Sprintf("job %s has not ended within the stop deadline: %v", e.Job, e.Err)
}

// Unwrap returns why it is not waited for any longer.
func (e *OverdueError) Unwrap() error { return e.Err }

// Group runs jobs. It is injectable; each module has its own. It is safe for concurrent use.
type Group interface {
	// Add runs jobs: from the start of the hive on, or at once if it has started. If it fails none of them is run: with
	// ErrStopped after the stop, and with health.ErrDuplicate for a name that another job of the group has. The name of a job
	// that has ended may be used again.
	Add(jobs ...Job) error
}

// Params are what a group needs of its module.
type Params struct {
	cell.In

	ID        cell.FullModuleID
	Lifecycle cell.Lifecycle
	Health    health.Health
	Logger    *slog.Logger
	Registry  *Registry
}

// NewGroup makes the group of a module. The hive does so for every module.
func NewGroup(p Params) Group {
	g := &group{params: p, jobs: make(map[string]*runner)}
	p.Lifecycle.Append(cell.Hook{Name: "jobs", OnStart: g.start, OnStop: g.stop})
	return g
}

type phase int

const (
	waiting phase = iota // for the start
	running
	stopped
)

type group struct {
	params Params

	mu    sync.Mutex
	phase phase
	jobs  map[string]*runner
}

func (g *group) start(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.phase = running
	return nil
}

// stop ends the jobs that are not stopped at a place of their own.
func (g *group) stop(ctx context.Context) error {
	g.mu.Lock()
	g.phase = stopped
	var all []*runner
	for _, r := range g.jobs {
		if !r.placed {
			all = append(all, r)
		}
	}
	g.mu.Unlock()
	return stopAll(ctx, all)
}

func (g *group) Add(jobs ...Job) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase == stopped {
		return fmt.Errorf("cannot add job %s of %q: %w", names(jobs), g.params.ID, ErrStopped)
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
	}
	g.params.Lifecycle.Append(cell.Hook{
		Name:    "job " + names(jobs),
		OnStart: func(context.Context) error { startAll(added); return nil },
		OnStop:  func(ctx context.Context) error { return stopAll(ctx, added) },
	})
	return nil
}

// prepareLocked registers all of the jobs or none.
func (g *group) prepareLocked(jobs []Job) ([]*runner, error) {
	var added []*runner
	for _, j := range jobs {
		r, err := g.registerLocked(j)
		if err != nil {
			for _, r := range added {
				r.health.Close()
				r.record.remove()
				delete(g.jobs, r.job.jobName())
			}
			return nil, fmt.Errorf("cannot add job %q of %q: %w", j.jobName(), g.params.ID, err)
		}
		added = append(added, r)
	}
	return added, nil
}

func (g *group) registerLocked(j Job) (*runner, error) {
	if old := g.jobs[j.jobName()]; old != nil && old.ended() {
		old.health.Close()
		delete(g.jobs, j.jobName())
	}
	h, err := g.params.Health.NewScope(j.jobName())
	if err != nil {
		return nil, err
	}
	r := newRunner(j, &g.params, h)
	g.jobs[j.jobName()] = r
	return r, nil
}

func names(jobs []Job) string {
	var all []string
	for _, j := range jobs {
		all = append(all, fmt.Sprintf("%q", j.jobName()))
	}
	return strings.Join(all, ", ")
}
