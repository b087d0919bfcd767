package dryrun

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// groupID identifies the rows that rows of a kind need because of one of its dependencies.
type groupID struct {
	kind       string
	dependency int
	key        string // see reconciler.Dependency.Key
}

// group is steps that other steps need. Many steps may need the same ones, such as rules the routes of a table.
type group struct {
	steps   []*step // each once
	settled bool    // all of them are in the order, and none is on its path
	sum     *groupSummary
}

// groupSummary is what the actions of a group mean for the steps that need it.
type groupSummary struct {
	made        bool // some of the rows are yet to be created or changed
	all, inVain []*step
}

// add adds a step, which may be nil.
func (g *group) add(s *step) {
	if s != nil {
		g.steps = append(g.steps, s)
	}
}

func byTitle(a, b *step) int {
	return cmp.Or(strings.Compare(a.op.Kind, b.op.Kind), strings.Compare(a.op.Key, b.op.Key))
}

// unique sorts the steps by title, and removes repeated ones.
func (g *group) unique() {
	slices.SortFunc(g.steps, byTitle)
	g.steps = slices.Compact(g.steps)
}

// summary returns the summary, which is kept if the actions of all the steps are known for good: not if some are in a cycle.
func (g *group) summary() groupSummary {
	if g.sum != nil {
		return *g.sum
	}
	sum, cyclic := groupSummary{all: g.steps}, false
	for _, s := range g.steps {
		cyclic = cyclic || s.cycle != ""
		sum.made = sum.made || s.op.Action == Create || s.op.Action == Change
		if s.op.Action == Fail {
			sum.inVain = append(sum.inVain, s)
		}
	}
	if g.settled && !cyclic {
		g.sum = &sum
	}
	return sum
}

// maxNames is how many rows an operation names at most of those that it waits for.
const maxNames = 10

// names are the titles of steps that a step needs, apart from the step itself.
type names struct {
	of     *step
	titles []string // the first of each group
	n      int      // how many the groups have
}

// add adds the steps of a group, which are ordered by their titles.
func (n *names) add(steps []*step) {
	n.n += len(steps)
	if _, itself := slices.BinarySearchFunc(steps, n.of, byTitle); itself {
		n.n--
	}
	for _, s := range steps[:min(len(steps), maxNames+1)] {
		if s != n.of {
			n.titles = append(n.titles, s.title())
		}
	}
}

// list returns the first titles in order, and how many more there are.
func (n *names) list() []string {
	complete := len(n.titles) == n.n
	slices.Sort(n.titles)
	titles := slices.Compact(n.titles)
	if complete {
		n.n = len(titles) // some are in several groups
	}
	if n.n <= maxNames {
		return titles
	}
	return append(titles[:maxNames], fmt.Sprintf("%d more", n.n-maxNames))
}
