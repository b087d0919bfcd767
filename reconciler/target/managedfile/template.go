package managedfile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

const (
	templateName = "template"
	// maxFormat and maxWidth limit how much longer than its arguments the output of printf can
	// be.
	maxFormat = 4096
	maxWidth  = 999
	// maxActions limits the memory that a template takes: nested ones take hundreds of times their text.
	maxActions = 10_000
)

// templateError is an error of parsing or executing a template, with its line.
type templateError struct {
	text string
	err  error
}

func (e *templateError) Error() string { return e.text }
func (e *templateError) Unwrap() error { return e.err }

// place matches the beginning of an error of text/template.
var place = regexp.MustCompile(`(?s)^template: [^:]*:(\d+)(?::\d+)?: (?:executing "[^"]*" )?(.*)$`)

// withLine converts an error of text/template to one with a line.
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

// parseTemplate parses a template. Its functions have to be set before it is executed: see
// functions.
func parseTemplate(text string) (*template.Template, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("it has %d bytes, expected at most %d", len(text), MaxSize)
	}
	if n := strings.Count(text, "{{"); n > maxActions {
		return nil, fmt.Errorf("it has %d actions, expected at most %d", n, maxActions)
	}
	t, err := template.New(templateName).Option("missingkey=error").Funcs(functions(source{})).Parse(text)
	if err == nil {
		err = checkCalls(t)
	}
	if err != nil {
		return nil, withLine(err)
	}
	return t, withLine(bound(t))
}

// walk calls visit for all nodes that can contain others.
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

// checkCalls refuses templates that call undefined templates, or themselves.
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

// source is where a template reads from.
type source struct {
	hostname func() (string, error)
	rows     func(table string) ([]any, error)
	row      func(table, key string) (map[string]any, error)
	goOn     func() error // an error ends the rendering
}

// functions returns the functions of a template, in addition to those of text/template that do
// not produce text.
func functions(s source) template.FuncMap {
	f := template.FuncMap{
		checkpoint: func() (string, error) { return "", s.goOn() },
		output:     s.output,
		"hostname": s.hostname,
		"rows":     s.rows,
		"row":      s.row,
		"join":     s.join,
		"indent":   s.indent,
		"trim": func(text string) (string, error) {
			return strings.TrimSpace(text), s.goOn()
		},
		"printf": func(format string, args ...any) (string, error) {
			width, err := widest(format)
			if err != nil {
				return "", err
			}
			return s.bounded(width, func(args ...any) string { return fmt.Sprintf(format, args...) })(args...)
		},
	}
	if s.hostname == nil { // parsing needs only the types
		f["hostname"] = func() (string, error) { return "", nil }
	}
	for name, original := range map[string]func(...any) string{
		"print": fmt.Sprint, "println": fmt.Sprintln,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
	} {
		f[name] = s.bounded(0, original)
	}
	return f
}

// verb matches a verb of printf, from the percent sign up to the letter.
var verb = regexp.MustCompile(`%[^a-zA-Z%]*`)

var number = regexp.MustCompile(`[0-9]+`)

// widest returns the largest width that a format gives to an argument. It returns an error for
// formats that print an argument twice or make it very wide.
func widest(format string) (width int, err error) {
	if len(format) > maxFormat {
		return 0, fmt.Errorf("the format has %d bytes, expected at most %d", len(format), maxFormat)
	}
	for _, v := range verb.FindAllString(format, -1) {
		if strings.ContainsAny(v, "*[") {
			return 0, fmt.Errorf("%q in a format: the numbers of arguments, and widths that are arguments, are not supported", v)
		}
		for _, digits := range number.FindAllString(v, -1) {
			digits = strings.TrimLeft(digits, "0")
			if len(digits) > len(fmt.Sprint(maxWidth)) {
				return 0, fmt.Errorf("%q in a format is wider than %d", v, maxWidth)
			}
			if n, err := strconv.Atoi(digits); err == nil {
				width = max(width, n)
			}
		}
	}
	return width, nil
}
