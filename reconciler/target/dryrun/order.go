package dryrun

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// inOrder sorts the kinds such that each comes after the kinds whose tables it depends on, and
// by name otherwise. Kinds that depend on each other are sorted by name.
func inOrder(kinds []Kind) ([]Kind, error) {
	kinds = slices.Clone(kinds)
	slices.SortFunc(kinds, func(a, b Kind) int { return strings.Compare(a.Name(), b.Name()) })
	byTable := make(map[string]Kind, len(kinds))
	for i, k := range kinds {
		if i > 0 && kinds[i-1].Name() == k.Name() {
			return nil, fmt.Errorf("two kinds are named %q", k.Name())
		}
		byTable[k.table()] = k
	}
	ordered, seen := make([]Kind, 0, len(kinds)), map[Kind]bool{}
	var visit func(Kind)
	visit = func(k Kind) {
		if k == nil || seen[k] { // others' tables, and cycles
			return
		}
		seen[k] = true
		for _, table := range k.needs() {
			visit(byTable[table])
		}
		ordered = append(ordered, k)
	}
	for _, k := range kinds {
		visit(k)
	}
	return ordered, nil
}

func byKind(kinds []Kind, rows []Row) (map[string][]Row, error) {
	sorted := make(map[string][]Row, len(kinds))
	for _, k := range kinds {
		sorted[k.Name()] = nil
	}
	for _, r := range rows {
		if _, known := sorted[r.Kind]; !known {
			return nil, fmt.Errorf("row %q is of unknown kind %q", r.Key, r.Kind)
		}
		sorted[r.Kind] = append(sorted[r.Kind], r)
	}
	return sorted, nil
}

// step is an operation that is not yet in a plan.
type step struct {
	op       Operation
	row      any
	of       Kind
	terminal bool     // its error is not caused by a missing object
	needs    []*group // on other rows, before this one
	node
	cycle string // of rows that wait for each other, if it is part of one
}

// title returns the row's name as used in other operations.
func (s *step) title() string { return s.op.Kind + " " + s.op.Key }

// steps are all steps of a plan.
type steps struct {
	rows    []*step // in the order of kinds
	deletes []*step // likewise
}

func (d *steps) add(c comparison) {
	d.rows = append(d.rows, c.due...)
	d.deletes = append(d.deletes, c.deletes...)
}

// relate determines the order of operations.
func (d *steps) relate(ctx context.Context) error {
	for _, all := range [][]*step{d.rows, d.deletes} {
		if err := relate(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// relate notes which of the rows each of them needs.
func relate(ctx context.Context, rows []*step) error {
	kinds, needed := map[Kind]bool{}, map[string]bool{}
	for _, s := range rows {
		if !kinds[s.of] {
			kinds[s.of] = true
			for _, table := range s.of.needs() {
				needed[table] = true
			}
		}
	}
	byTable := map[string]*copied{}
	for k := range kinds {
		if !needed[k.table()] {
			continue
		}
		c, err := copyOf(ctx, k, rows)
		if err != nil {
			return err
		}
		byTable[k.table()] = c
	}
	for _, s := range rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.needs = s.of.needed(s, byTable)
	}
	return nil
}

// copyOf makes a table of those of the rows that are of a kind.
func copyOf(ctx context.Context, k Kind, rows []*step) (*copied, error) {
	c := &copied{steps: map[string]*step{}, groups: map[groupID]*group{}, same: map[uint64][]*group{}}
	for _, s := range rows {
		if s.of == k {
			c.steps[s.op.Key] = s
		}
	}
	err := k.copy(ctx, c)
	return c, err
}

// ordered returns the steps in order: rows after the rows that they need, then deletes in reverse.
func (d *steps) ordered() []*step {
	var rows, deletes order
	for _, s := range d.rows {
		rows.settle(s)
	}
	for _, s := range rows.settled {
		s.decide()
	}
	for _, s := range d.firstKindLastKey() {
		deletes.settle(s)
	}
	slices.Reverse(deletes.settled)
	return append(rows.settled, deletes.settled...)
}

// order is a list of steps, each after the steps that it needs, apart from those that need each other. These are found by Tarjan's algorithm
// (Depth-First Search and Linear Graph Algorithms, SIAM Journal on Computing 1, 1972), of steps and groups.
type order struct {
	settled []*step
	entered int
	path    []*node // those entered whose component is not known yet
}

// node is a step or a group in the algorithm.
type node struct {
	step      *step // nil for a group
	index     int   // when it was entered; 0: it was not
	low       int   // the lowest index on the path that leads back there
	onPath    bool
	component int // the index of the first of its component
}

func (o *order) enter(n *node) {
	o.entered++
	n.index, n.low, n.onPath = o.entered, o.entered, true
	o.path = append(o.path, n)
}

// led notes what follows from a node's edge to another one, which has been entered.
func (n *node) led(to *node) {
	if to.onPath {
		n.low = min(n.low, to.low)
	}
}

// settle appends a step after the steps that it needs, unless they are in the list already.
func (o *order) settle(s *step) {
	if s.index != 0 {
		return
	}
	s.step = s
	o.enter(&s.node)
	for _, g := range s.needs {
		o.settleGroup(g)
		s.led(&g.node)
	}
	o.settled = append(o.settled, s)
	o.leave(&s.node)
}

// settleGroup settles the steps of a group.
func (o *order) settleGroup(g *group) {
	if g.index != 0 {
		return
	}
	o.enter(&g.node)
	for _, needed := range g.steps {
		o.settle(needed)
		g.led(&needed.node)
	}
	o.leave(&g.node)
}

// leave takes a component off the path if a node is the first of it. Several steps in it are a cycle.
func (o *order) leave(first *node) {
	if first.low != first.index {
		return
	}
	from := len(o.path) - 1
	for o.path[from] != first {
		from--
	}
	component := o.path[from:] // the steps and groups that lead to each other
	var members []*step
	for _, n := range component {
		n.onPath, n.component = false, first.index
		if n.step != nil {
			members = append(members, n.step)
		}
	}
	if len(members) > 1 {
		for _, s := range members {
			s.noteCycle()
		}
	}
	clear(component)
	o.path = o.path[:from]
}

// firstKindLastKey returns the deletes in the order of kinds, and from the last key to the
// first: in reverse, keys are in order where nothing else decides.
func (d *steps) firstKindLastKey() []*step {
	place := map[Kind]int{}
	for _, s := range d.deletes {
		if _, known := place[s.of]; !known {
			place[s.of] = len(place)
		}
	}
	last := slices.Clone(d.deletes)
	slices.Reverse(last)
	slices.SortStableFunc(last, func(a, b *step) int { return place[a.of] - place[b.of] })
	return last
}

// maxCycleNames is the maximum number of rows of a cycle that are named.
const maxCycleNames = 10

// noteCycle marks a row of those that wait for each other: an apply never reaches it.
func (s *step) noteCycle() {
	names, named := []string{s.title()}, map[*step]bool{}
	at := s.next()
	for ; at != s && !named[at] && len(names) < maxCycleNames; at = at.next() {
		names, named[at] = append(names, at.title()), true
	}
	if at != s {
		names = append(names, "...")
	}
	s.cycle = "in a cycle of rows that wait for each other: " + strings.Join(append(names, s.title()), " -> ")
}

// next returns a step that a step of a cycle needs and that needs it in turn.
func (s *step) next() *step {
	for _, g := range s.needs {
		if g.component != s.component {
			continue
		}
		for _, needed := range g.steps {
			if needed != s && needed.component == s.component {
				return needed
			}
		}
	}
	return s // not if there are several
}

// decide determines the action for a row after the actions of the rows that it needs are known.
// A row that cannot be compared because those rows have yet to create something is created
// after them. A row that needs a failing row fails, too.
func (s *step) decide() {
	made, after, inVain := false, names{of: s}, names{of: s}
	for _, g := range s.needs {
		after.add(g.steps)
		if s.cycle != "" {
			continue // that decides
		}
		sum := g.summary(s)
		made = made || sum.made
		inVain.add(sum.failed)
	}
	s.op.After = after.list()
	switch failed := s.op.Action == Fail; {
	case s.cycle != "" && !s.terminal:
		s.op.Action, s.op.Error = Fail, s.cycle
	case inVain.n > 0 && (!failed || made && !s.terminal):
		s.op.Action, s.op.Error = Fail, "waits for "+strings.Join(inVain.list(), ", ")+", which would be in error"
	case failed && made && !s.terminal:
		s.op.Action, s.op.Error = Create, ""
	}
}
