package graph

import (
	"errors"

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
	case *description.Provide:
		return s.applyProvide(c)
	case *description.Supply:
		return s.applySupply(c)
	case *description.Decorate:
		return s.applyDecorate(c)
	case *description.Invoke:
		return s.applyInvoke(c)
	case *description.Config:
		return s.applyConfig(c)
	}
	return s.errorf("a cell is nil")
}

func (s *scope) applyInvoke(i *description.Invoke) error {
	var errs []error
	if i.Later {
		s = s.graph.root
	}
	for _, fn := range i.Functions {
		f, err := newFunction("invoke", fn, s, i.At)
		switch {
		case err != nil:
		case i.Later:
			s.graph.outside = append(s.graph.outside, f)
		default:
			s.graph.invokes = append(s.graph.invokes, f)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
