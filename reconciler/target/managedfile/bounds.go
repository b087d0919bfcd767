package managedfile

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
)

const (
	// checkpoint is a function that is called before each action, and in each round of each loop: there a rendering that takes
	// too long ends.
	checkpoint = "checkpoint"
	// output is a function that gets what an action prints, before its text is made.
	output = "output"
	// maxAction is how many bytes an action may have: what it compares costs time.
	maxAction = 16 << 10
)

var (
	errTooLarge = fmt.Errorf("it makes more than %d bytes", MaxSize)
	errTooSlow  = errors.New("it takes too long")
)

// bound has a template call checkpoint and output. It refuses actions that are too long.
func bound(t *template.Template) error {
	parsed, err := parse.Parse(checkpoint, "{{"+checkpoint+"}}{{1 | "+output+"}}", "", "", functions(source{}))
	if err != nil {
		return err
	}
	check, printing := parsed[checkpoint].Root.Nodes[0], parsed[checkpoint].Root.Nodes[1].(*parse.ActionNode)
	for _, each := range t.Templates() {
		if each.Tree == nil || each.Root == nil {
			continue
		}
		walk(each.Root, func(n parse.Node) {
			pipe := pipeOf(n)
			if pipe != nil && err == nil {
				if size := len(pipe.String()); size > maxAction {
					err = fmt.Errorf("template: %s:%d: an action of %d bytes, expected at most %d", templateName, pipe.Line, size, maxAction)
				}
			}
			switch n := n.(type) {
			case *parse.ActionNode:
				if n != check && len(pipe.Decl) == 0 {
					pipe.Cmds = append(pipe.Cmds, printing.Pipe.Cmds[1])
				}
			case *parse.ListNode:
				n.Nodes = checked(n.Nodes, check)
			}
		})
	}
	return err
}

// pipeOf returns what a node evaluates; nil: nothing.
func pipeOf(n parse.Node) *parse.PipeNode {
	switch n := n.(type) {
	case *parse.ActionNode:
		return n.Pipe
	case *parse.TemplateNode:
		return n.Pipe
	case *parse.IfNode:
		return n.Pipe
	case *parse.RangeNode:
		return n.Pipe
	case *parse.WithNode:
		return n.Pipe
	}
	return nil
}

// checked returns nodes with a check at the beginning and before each that evaluates something.
func checked(nodes []parse.Node, check parse.Node) []parse.Node {
	all := []parse.Node{check}
	for i, n := range nodes {
		if i > 0 && pipeOf(n) != nil {
			all = append(all, check)
		}
		all = append(all, n)
	}
	return all
}

// output returns what is to be printed, unless it has too much text.
func (s source) output(value any) (any, error) {
	if textLeft(value, 0, MaxSize) < 0 {
		return nil, errTooLarge
	}
	return value, s.goOn()
}

// bounded returns a function that refuses much text, to make much of it, and to be called when the time is over. A value that
// has no parts counts width bytes at least.
func (s source) bounded(width int, original func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		if err := s.goOn(); err != nil {
			return "", err
		}
		if textLeft(args, width, MaxSize+len(args)+1) < 0 {
			return "", errTooLarge
		}
		text := original(args...)
		if len(text) > MaxSize {
			return "", errTooLarge
		}
		return text, nil
	}
}

// textLeft returns what is left of so many bytes when a value is printed, negative if they do not suffice. It counts no more than
// that takes at least: a value without parts has width bytes or more.
func textLeft(value any, width, left int) int {
	switch v := value.(type) {
	case string:
		return left - max(len(v), width)
	case []any:
		for _, part := range v {
			if left = textLeft(part, width, left-1); left < 0 {
				break
			}
		}
		return left - 1
	case map[string]any:
		for name, part := range v {
			if left = textLeft(part, width, left-1-len(name)); left < 0 {
				break
			}
		}
		return left - 1
	}
	return left - max(1, width)
}

// join joins the texts of the elements of a list.
func (s source) join(list []any, separator string) (string, error) {
	var all limited
	if err := s.goOn(); err != nil {
		return "", err
	}
	for i, element := range list {
		if err := s.goOn(); err != nil {
			return "", err
		}
		if textLeft(element, 0, MaxSize) < 0 {
			return "", errTooLarge
		}
		if i > 0 {
			if _, err := all.Write([]byte(separator)); err != nil {
				return "", err
			}
		}
		if _, err := fmt.Fprint(&all, element); err != nil {
			return "", err
		}
	}
	return all.String(), nil
}

// indent puts spaces before each line that is not empty.
func (s source) indent(spaces int, text string) (string, error) {
	if err := s.goOn(); err != nil {
		return "", err
	}
	if spaces < 0 || spaces > maxWidth {
		return "", fmt.Errorf("%d spaces are out of range, expected 0 to %d", spaces, maxWidth)
	}
	if len(text)+spaces*(strings.Count(text, "\n")+1) > 2*MaxSize {
		return "", errTooLarge
	}
	var all strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			all.WriteString(strings.Repeat(" ", spaces))
		}
		all.WriteString(line)
	}
	return all.String(), nil
}

// limited collects what a template writes.
type limited struct{ strings.Builder }

// Write implements io.Writer.
func (l *limited) Write(data []byte) (int, error) {
	if l.Len()+len(data) > MaxSize {
		return 0, errTooLarge
	}
	return l.Builder.Write(data)
}
