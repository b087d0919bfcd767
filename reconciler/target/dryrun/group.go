package dryrun

import (
	"cmp"
	"fmt"
	"hash/maphash"
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
	steps []*step // each once
	node
	sum *groupSummary
}

// groupSummary is what the actions of a group mean for the steps that need it.
type groupSummary struct {
	made   bool    // some of the rows are yet to be created or changed
	failed []*step // the others wait for them in vain
}

func byTitle(a, b *step) int {
	return cmp.Or(strings.Compare(a.op.Kind, b.op.Kind), strings.Compare(a.op.Key, b.op.Key))
}

var groupSeed = maphash.MakeSeed()

// group returns a group of steps, some of which may be repeated. It is the same one for the same steps, of which there may be very many.
func (c *copied) group(steps []*step) *group {
	slices.SortFunc(steps, byTitle)
	steps = slices.Compact(steps)
	var hash maphash.Hash
	hash.SetSeed(groupSeed)
	for _, s := range steps {
		maphash.WriteComparable(&hash, s)
	}
	sum := hash.Sum64()
	for _, g := range c.same[sum] {
		if slices.Equal(g.steps, steps) {
			return g
		}
	}
	g := &group{steps: slices.Clip(steps)}
	c.same[sum] = append(c.same[sum], g)
	return g
}

// summary returns the summary for a step that needs the group. It is kept if the actions of all steps of the group are known for good: not if the step
// is one of them, or in a cycle with them.
func (g *group) summary(of *step) groupSummary {
	if g.sum != nil {
		return *g.sum
	}
	var sum groupSummary
	for _, s := range g.steps {
		sum.made = sum.made || s.op.Action == Create || s.op.Action == Change
		if s.op.Action == Fail {
			sum.failed = append(sum.failed, s)
		}
	}
	if g.component != of.component {
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
