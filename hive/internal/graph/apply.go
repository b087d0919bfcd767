package graph

import (
	"errors"
	"slices"

	"github.com/statehive/statehive/hive/internal/description"
)

// apply adds what a cell describes.
func (s *scope) apply(c description.Cell) error {
	switch c := c.(type) {
	case *description.Module:
		n, err := s.nested(c)
		if err != nil {
			return err
		}
		return n.apply(c.Contents)
	case description.Group:
		var errs []error
		for _, c := range c {
			errs = append(errs, s.apply(c))
		}
		return errors.Join(errs...)
	case *description.Config:
		return s.applyConfig(c)
	case *description.Contents:
		return s.applyContents(c)
	}
	return s.errorf("a cell is nil")
}

func (s *scope) applyContents(c *description.Contents) error {
	if c.ForModules && c.Kind == description.Provide {
		each := *c
		each.ForModules = false
		s.forModules = append(s.forModules, &each)
		return nil
	}
	var errs []error
	for _, v := range c.All {
		errs = append(errs, s.applyEach(c, v))
	}
	return errors.Join(errs...)
}

// applyEach adds one element of a cell's contents.
func (s *scope) applyEach(c *description.Contents, v any) error {
	switch c.Kind {
	case description.Provide, description.Supply:
		return s.applyMaker(c, v)
	case description.Decorate:
		return s.applyDecorator(c, v)
	}
	if c.Kind == description.Later {
		s = s.graph.root
	}
	f, err := newFunction("invoke", v, s, c.At)
	switch {
	case err != nil:
	case c.Kind == description.Later:
		s.graph.outside = append(s.graph.outside, f)
	default:
		s.graph.invokes = append(s.graph.invokes, f)
	}
	return err
}

// applyForModules applies per-module cells. All modules must be known.
func (g *Graph) applyForModules() error {
	var errs []error
	for _, s := range g.scopes {
		if s.parent != nil {
			s.forModules = slices.Concat(s.parent.forModules, s.forModules) // the parent comes first
		}
		before := len(g.provided)
		errs = append(errs, g.applyOwn(s, s.forModules...))
		for _, f := range g.provided[before:] {
			f.forModules = true
		}
	}
	return errors.Join(errs...)
}
