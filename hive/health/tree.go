package health

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxRecent is how many changes of level a part keeps.
const maxRecent = 8

// Change is how a part was before.
type Change struct {
	Level   Level     `json:"level"`
	Since   time.Time `json:"since"` // when it became so
	Message string    `json:"message"`
	Error   string    `json:"error,omitempty"`
}

// String is one line for people.
func (c Change) String() string {
	text := c.Level.String() + " since " + c.Since.UTC().Format(time.RFC3339)
	for _, more := range []string{c.Message, c.Error} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// changed returns the changes that are kept with one more, the newest first. What is kept already stays as it is.
func changed(before *[]Change, last Status) *[]Change {
	all := []Change{{Level: last.Level, Since: last.Since, Message: last.Message, Error: last.Error}}
	if before != nil {
		all = append(all, (*before)[:min(len(*before), maxRecent-1)]...)
	}
	return &all
}

// Node is a part with those below it.
type Node struct {
	Name   string  // as it was given; the last part of the id
	ID     string  // the id
	Own    *Status // what the part itself says; nil if it says nothing
	Level  Level   // the worst of the part and of those below; zero if none says anything
	Below  []*Node // by name
	Counts map[Level]int
}

// Aggregate makes a tree of statuses, whose root stands for all.
func Aggregate(statuses []Status) *Node {
	root := &Node{}
	for i := range statuses {
		root.add(&statuses[i])
	}
	root.sum()
	return root
}

func (n *Node) add(s *Status) {
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
func (n *Node) child(word string) *Node {
	name := word
	if unquoted, err := strconv.Unquote(word); err == nil {
		name = unquoted
	}
	i, found := slices.BinarySearchFunc(n.Below, name, func(c *Node, name string) int { return strings.Compare(c.Name, name) })
	if !found {
		n.Below = slices.Insert(n.Below, i, &Node{Name: name, ID: strings.TrimPrefix(n.ID+"."+word, ".")})
	}
	return n.Below[i]
}

// ID is the id of a scope: that of an outermost one, and the names of those that lead from there to it.
func ID(outermost string, names ...string) string {
	for _, name := range names {
		outermost += "." + word(name)
	}
	return outermost
}

// word is a name as ids have it: quoted if it could be taken for more than one, or for a quoted one.
func word(name string) string {
	if strings.ContainsAny(name, `."`) {
		return strconv.Quote(name)
	}
	return name
}

// cut returns the first word of an id, and the rest after its dot.
func cut(id string) (first, rest string) {
	if quoted, err := strconv.QuotedPrefix(id); err == nil && id[0] == '"' {
		return quoted, strings.TrimPrefix(id[len(quoted):], ".")
	}
	first, rest, _ = strings.Cut(id, ".")
	return first, rest
}

func (n *Node) sum() {
	n.Counts = make(map[Level]int)
	if n.Own != nil {
		n.Counts[n.Own.Level]++
	}
	for _, c := range n.Below {
		c.sum()
		for level, count := range c.Counts {
			n.Counts[level] += count
		}
	}
	for _, level := range []Level{Degraded, OK, Stopped} {
		if n.Counts[level] > 0 {
			n.Level = level
			return
		}
	}
}
