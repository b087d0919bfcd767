package healthcell

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/statehive/statehive/hive/health"
)

// node is a part and its nested parts.
type node struct {
	Name   string         // as it was given; the last part of the id
	ID     string         // the id
	Own    *health.Status // reported by the part itself; nil if it has not reported
	Level  health.Level   // the worst of the part and its nested parts; zero if none has reported
	Below  []*node        // by name
	Counts map[health.Level]int
}

// aggregate builds a tree of statuses and returns its root.
func aggregate(statuses []health.Status) *node {
	root := &node{}
	for i := range statuses {
		root.add(&statuses[i])
	}
	root.sum()
	return root
}

func (n *node) add(s *health.Status) {
	for rest := s.ID; ; {
		first, more := cut(rest)
		n = n.child(first)
		if more == "" {
			break
		}
		rest = more
	}
	n.Own = s
}

// child returns the part whose name, as ids have it, is word.
func (n *node) child(word string) *node {
	name := word
	if unquoted, err := strconv.Unquote(word); err == nil {
		name = unquoted
	}
	id := strings.TrimPrefix(n.ID+"."+word, ".")
	i, found := slices.BinarySearchFunc(n.Below, name, func(c *node, name string) int {
		return cmp.Or(strings.Compare(c.Name, name), strings.Compare(c.ID, id)) // a module and a scope may have the same name
	})
	if !found {
		n.Below = slices.Insert(n.Below, i, &node{Name: name, ID: id})
	}
	return n.Below[i]
}

// cut returns the first word of an id, and the rest after its dot.
func cut(id string) (first, rest string) {
	if quoted, err := strconv.QuotedPrefix(id); err == nil && id[0] == '"' {
		return quoted, strings.TrimPrefix(id[len(quoted):], ".")
	}
	first, rest, _ = strings.Cut(id, ".")
	return first, rest
}

func (n *node) sum() {
	n.Counts = make(map[health.Level]int)
	if n.Own != nil {
		n.Counts[n.Own.Level]++
	}
	for _, c := range n.Below {
		c.sum()
		for level, count := range c.Counts {
			n.Counts[level] += count
		}
	}
	for _, level := range []health.Level{health.Degraded, health.OK, health.Stopped} {
		if n.Counts[level] > 0 {
			n.Level = level
			return
		}
	}
}
