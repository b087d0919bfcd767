package job

import (
	"context"
	"strconv"
)

// scope is a group within another one.
type scope struct {
	*group

	parent *group
	name   string
}

func (g *group) NewScope(name string) (Scope, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase == stopped {
		return nil, g.refused("scope "+strconv.Quote(name), ErrStopped)
	}
	h, err := g.health.NewScope(name)
	if err != nil {
		return nil, g.refused("scope "+strconv.Quote(name), err)
	}
	s := &scope{group: newGroup(g.params, g.path+name+".", h), parent: g, name: name}
	s.phase = g.phase
	g.scopes[name] = s
	return s, nil
}

// Stop implements Scope.
func (s *scope) Stop(ctx context.Context) error {
	s.enter(stopped)
	if err := stopAll(ctx, s.runners(func(*runner) bool { return true })); err != nil {
		return err
	}
	s.forget()
	s.parent.mu.Lock()
	defer s.parent.mu.Unlock()
	if s.parent.scopes[s.name] == s {
		delete(s.parent.scopes, s.name)
	}
	s.health.Close()
	return nil
}

// forget removes what is left of all jobs.
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
