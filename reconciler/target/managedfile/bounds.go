package managedfile

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
)

const (
	// checkpoint is a function that is called before each action and in each iteration of a
	// loop, to stop a rendering that takes too long.
	checkpoint = "checkpoint"
	// output is a function that gets the value that an action prints, before it is formatted.
	output = "output"
	// maxAction limits the size of an action in bytes, because comparing long strings takes
	// time.
	maxAction = 16 << 10
)

var (
	errTooLarge = fmt.Errorf("it makes more than %d bytes", MaxSize)
	errTooSlow  = errors.New("it takes too long")
)

// bound inserts calls of checkpoint and output into a template. It returns an error for actions
// that are too long.
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

// pipeOf returns the pipeline that a node evaluates, or nil.
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

// checked returns nodes with a check at the beginning and before each node that evaluates a
// pipeline.
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

// output returns the value, or an error if its text would be too long.
func (s source) output(value any) (any, error) {
	if textLeft(value, 0, MaxSize) < 0 {
		return nil, errTooLarge
	}
	return value, s.goOn()
}

// bounded wraps a function so that it returns an error if its arguments, and so its result,
// would be too long, or if the time is over. A value without parts counts as at least width
// bytes.
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

// textLeft returns how many of left bytes remain when a value is printed; the result is
// negative if they do not suffice. It is a lower bound of the text's length: a value without
// parts has at least width bytes.
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

// join joins the elements of a list, formatted as text.
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

// indent inserts spaces before each line that is not empty.
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

// limited collects the output of a template, up to MaxSize bytes.
type limited struct{ strings.Builder }

// Write implements io.Writer.
func (l *limited) Write(data []byte) (int, error) {
	if l.Len()+len(data) > MaxSize {
		return 0, errTooLarge
	}
	return l.Builder.Write(data)
}
