package graph

import (
	"errors"
	"slices"
	"strings"
)

// Validate reports missing dependencies, cycles and unused contributions to groups, without calling anything. It returns all errors,
// joined, each a *GraphError with the dependency path. New has already reported faults of single cells. Functions passed to Invoke
// count as used.
func (g *Graph) Validate() error {
	g.mu.Lock()
	invoked := slices.Concat(g.invokes, g.outside)
	g.mu.Unlock()
	return errors.Join(check(invoked), g.checkGroups(invoked))
}

// contribution is a function's contribution to a group.
type contribution struct {
	of *function
	to key
}

// checkGroups reports contributions to groups that no constructor or invoked function asks for.
func (g *Graph) checkGroups(invoked []*function) error {
	askedFor := make(map[contribution]bool)
	var wanted []wantedGroup
	for _, f := range slices.Concat(g.provided, invoked) {
		for _, n := range f.needs {
			if n.group == "" {
				continue
			}
			wanted = append(wanted, wantedGroup{n.key, f})
			for _, maker := range f.scope.find(n.key) {
				askedFor[contribution{maker, n.key}] = true
			}
		}
	}
	var errs []error
	for _, f := range g.provided {
		for _, m := range f.makes {
			c := contribution{f, m.key}
			if m.group == "" || f.own || askedFor[c] {
				continue
			}
			askedFor[c] = true // report it once
			errs = append(errs, f.errorf("nothing asks for the group of %v%s", m.key, c.similar(wanted)))
		}
	}
	return errors.Join(errs...)
}

// wantedGroup is a group and a function that asks for it.
type wantedGroup struct {
	key
	by *function
}

// similar lists the groups of the same name or type that are asked for.
func (c contribution) similar(wanted []wantedGroup) string {
	var found []string
	for _, w := range wanted {
		if w.group == c.to.group || bare(w.typ) == bare(c.to.typ) {
			found = append(found, w.String()+" by "+w.by.id())
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if len(found) == 0 {
		return ""
	}
	if len(found) > maxKnown {
		found = append(found[:maxKnown], "…")
	}
	return " (asked for: " + strings.Join(found, ", ") + ")"
}
