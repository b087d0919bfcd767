package job

import (
	"context"
	"strconv"

	"github.com/statehive/statehive/hive/cell"
)

// scope is a group nested in another one.
type scope struct {
	*group

	parent *group // nil for a scope with its own lifecycle
	name   string
}

func (g *group) NewScope(name string) (Scope, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase == stopped {
		return nil, g.refused("scope "+strconv.Quote(name), ErrStopped)
	}
	h, err := g.openLocked(name)
	if err != nil {
		return nil, g.refused("scope "+strconv.Quote(name), named(name, err))
	}
	s := &scope{group: newGroup(g.params, idOf(h, g.id, name), h), parent: g, name: name}
	s.phase = g.phase
	g.scopes[name] = s
	return s, nil
}

// NewScope returns a scope with its own lifecycle, p.Lifecycle, and a hook that starts its jobs: append the hook after the jobs'
// dependencies. The health of the scope is p.Health, which Stop closes. The hive calls it for sub-lifecycles.
func NewScope(p Params, name string) (Scope, cell.Hook) {
	s := &scope{group: newGroup(&p, idOf(p.Health, string(p.ID), name), p.Health), name: name}
	return s, cell.Hook{Name: "jobs of " + name, OnStart: s.start, OnStop: s.stop}
}

// Stop implements Scope.
func (s *scope) Stop(ctx context.Context) error {
	s.enter(stopped)
	if err := stopAll(ctx, s.runners(func(*runner) bool { return true })); err != nil {
		return err
	}
	s.forget()
	if s.parent != nil {
		s.parent.remove(s)
	}
	s.health.Close()
	return nil
}

func (g *group) remove(s *scope) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.scopes[s.name] == s {
		delete(g.scopes, s.name)
	}
}

// forget removes the rows, the health and the names of all jobs.
func (g *group) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.scopes {
		s.forget()
	}
	for _, r := range g.jobs {
		g.forgetLocked(r)
	}
}
