package managedfile

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

const (
	templateName = "template"
	// checkpoint is a function that is called in each round of each loop, and at the
	// beginning of each template: there a rendering that takes too long ends.
	checkpoint = "checkpoint"
	// maxFormat and maxWidth bound what printf can make of little.
	maxFormat = 4096
	maxWidth  = 999
)

// templateError is an error of parsing or executing, with the line.
type templateError struct {
	text string
	err  error
}

func (e *templateError) Error() string { return e.text }
func (e *templateError) Unwrap() error { return e.err }

// place is how text/template begins its errors.
var place = regexp.MustCompile(`(?s)^template: [^:]*:(\d+)(?::\d+)?: (?:executing "[^"]*" )?(.*)$`)

// withLine returns an error of text/template as one of a field.
func withLine(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if parts := place.FindStringSubmatch(text); parts != nil {
		text = "line " + parts[1] + ": " + parts[2]
	}
	return &templateError{text, err}
}

// parseTemplate parses a template, whose functions are still to be set: see functions.
func parseTemplate(text string) (*template.Template, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("it has %d bytes, expected at most %d", len(text), MaxSize)
	}
	t, err := template.New(templateName).Option("missingkey=error").Funcs(functions(source{})).Parse(text)
	if err == nil {
		err = checkCalls(t)
	}
	if err != nil {
		return nil, withLine(err)
	}
	check, err := parse.Parse(checkpoint, "{{"+checkpoint+"}}", "", "", functions(source{}))
	if err != nil {
		return nil, err
	}
	for _, each := range t.Templates() {
		if each.Tree == nil || each.Root == nil {
			continue
		}
		prepend(each.Root, check[checkpoint].Root.Nodes[0])
		walk(each.Root, func(n parse.Node) {
			if loop, ok := n.(*parse.RangeNode); ok {
				prepend(loop.List, check[checkpoint].Root.Nodes[0])
			}
		})
	}
	return t, nil
}

func prepend(list *parse.ListNode, node parse.Node) {
	list.Nodes = slices.Insert(list.Nodes, 0, node)
}

// walk calls visit with all nodes that can have others in them.
func walk(node parse.Node, visit func(parse.Node)) {
	visit(node)
	branch := func(b parse.BranchNode) {
		walk(b.List, visit)
		if b.ElseList != nil {
			walk(b.ElseList, visit)
		}
	}
	switch n := node.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			walk(child, visit)
		}
	case *parse.IfNode:
		branch(n.BranchNode)
	case *parse.RangeNode:
		branch(n.BranchNode)
	case *parse.WithNode:
		branch(n.BranchNode)
	}
}

// checkCalls refuses templates that call what is not defined, or themselves.
func checkCalls(t *template.Template) error {
	calls := map[string][]*parse.TemplateNode{}
	for _, each := range t.Templates() {
		if each.Tree == nil || each.Root == nil {
			continue
		}
		walk(each.Root, func(n parse.Node) {
			if call, ok := n.(*parse.TemplateNode); ok {
				calls[each.Name()] = append(calls[each.Name()], call)
			}
		})
	}
	done, open := map[string]bool{}, map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		open[name] = true
		for _, call := range calls[name] {
			switch defined := t.Lookup(call.Name); {
			case defined == nil || defined.Tree == nil:
				return fmt.Errorf("template: %s:%d: template %q is not defined", templateName, call.Line, call.Name)
			case open[call.Name]:
				return fmt.Errorf("template: %s:%d: template %q calls itself", templateName, call.Line, call.Name)
			case done[call.Name]:
				continue
			}
			if err := visit(call.Name); err != nil {
				return err
			}
		}
		done[name], open[name] = true, false
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		if err := visit(name); err != nil {
			return err
		}
	}
	return nil
}

// source is what a template reads.
type source struct {
	hostname func() (string, error)
	rows     func(table string) ([]any, error)
	row      func(table, key string) (map[string]any, error)
	goOn     func() error // an error ends the rendering
}

var errTooLarge = fmt.Errorf("it makes more than %d bytes", MaxSize)

// functions are those of a template, beside those of text/template that make no text.
func functions(s source) template.FuncMap {
	f := template.FuncMap{
		checkpoint: func() (string, error) { return "", s.goOn() },
		"hostname": s.hostname,
		"rows":     s.rows,
		"row":      s.row,
		"join":     join,
		"indent":   indent,
		"trim":     strings.TrimSpace,
		"printf": func(format string, args ...any) (string, error) {
			if err := checkFormat(format); err != nil {
				return "", err
			}
			return s.bounded(func(args ...any) string { return fmt.Sprintf(format, args...) })(args...)
		},
	}
	if s.hostname == nil { // for parsing: the types count
		f["hostname"] = func() (string, error) { return "", nil }
	}
	for name, original := range map[string]func(...any) string{
		"print": fmt.Sprint, "println": fmt.Sprintln,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
	} {
		f[name] = s.bounded(original)
	}
	return f
}

// bounded returns a function that refuses much text, to make much of it, and to be called when the time is over.
func (s source) bounded(original func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		if err := s.goOn(); err != nil {
			return "", err
		}
		size := 0
		for _, arg := range args {
			if text, ok := arg.(string); ok {
				size += len(text)
			}
		}
		if size > MaxSize {
			return "", errTooLarge
		}
		text := original(args...)
		if len(text) > MaxSize {
			return "", errTooLarge
		}
		return text, nil
	}
}

// verb is what printf takes from a percent sign up to the letter.
var verb = regexp.MustCompile(`%[^a-zA-Z%]*`)

var number = regexp.MustCompile(`[0-9]+`)

// checkFormat refuses formats that print an argument twice, or make it very wide.
func checkFormat(format string) error {
	if len(format) > maxFormat {
		return fmt.Errorf("the format has %d bytes, expected at most %d", len(format), maxFormat)
	}
	for _, v := range verb.FindAllString(format, -1) {
		if strings.ContainsAny(v, "*[") {
			return fmt.Errorf("%q in a format: the numbers of arguments, and widths that are arguments, are not supported", v)
		}
		for _, width := range number.FindAllString(v, -1) {
			if len(strings.TrimLeft(width, "0")) > len(fmt.Sprint(maxWidth)) {
				return fmt.Errorf("%q in a format is wider than %d", v, maxWidth)
			}
		}
	}
	return nil
}

// join joins the texts of the elements of a list.
func join(list []any, separator string) (string, error) {
	var all strings.Builder
	for i, element := range list {
		if i > 0 {
			all.WriteString(separator)
		}
		fmt.Fprint(&all, element)
		if all.Len() > MaxSize {
			return "", errTooLarge
		}
	}
	return all.String(), nil
}

// indent puts spaces before each line that is not empty.
func indent(spaces int, text string) (string, error) {
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

var errTooSlow = errors.New("it takes too long")
