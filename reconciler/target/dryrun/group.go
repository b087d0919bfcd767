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

// group is a set of steps that other steps need. Many steps may need the same ones: all rules of a table need its routes.
type group struct {
	steps   []*step // each once
	settled bool    // all of them are in the order, and none is on its path
	sum     *groupSummary
}

// groupSummary is what the actions of a group mean for the steps that need it.
type groupSummary struct {
	made   bool    // some of the rows are yet to be created or changed
	failed []*step // the others wait for them in vain
}

func byTitle(a, b *step) int {
	return cmp.Or(strings.Compare(a.op.Kind, b.op.Kind), strings.Compare(a.op.Key, b.op.Key))
}

// newGroup returns a group of steps, some of which may be repeated.
func newGroup(steps []*step) *group {
	slices.SortFunc(steps, byTitle)
	return &group{steps: slices.Compact(steps)}
}

// summary returns the summary, which is kept if the actions of all the steps are known for good: not if some are in a cycle.
func (g *group) summary() groupSummary {
	if g.sum != nil {
		return *g.sum
	}
	sum, cyclic := groupSummary{}, false
	for _, s := range g.steps {
		cyclic = cyclic || s.cycle != ""
		sum.made = sum.made || s.op.Action == Create || s.op.Action == Change
		if s.op.Action == Fail {
			sum.failed = append(sum.failed, s)
		}
	}
	if g.settled && !cyclic {
		g.sum = &sum
	}
	return sum
}

// maxNames is the most rows that an operation names of those that it waits for.
const maxNames = 10

// names are the titles of steps that a step needs, apart from the step itself.
type names struct {
	of     *step
	titles []string // the first of each group
	n      int      // the number of steps in the groups
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
