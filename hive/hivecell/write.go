package hivecell

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
)

// writeModules writes every module with its functions, and the hooks in their order.
func writeModules(w io.Writer, d hive.Description) error {
	var text strings.Builder
	for i, m := range d.Cells.Modules {
		if i == 0 {
			fmt.Fprintf(&text, "hive %s\n", m.ID)
		} else {
			fmt.Fprintf(&text, "\nmodule %s: %s (%s)\n", m.ID, m.Title, m.Location)
		}
		for _, f := range m.Functions {
			if f.BuiltIn {
				continue
			}
			fmt.Fprintf(&text, "  %s %s (%s)%s\n", f.Verb, f.Name, f.Location, took(f.Duration))
			list(&text, "provides", f.Provides)
			list(&text, "needs", f.Needs)
		}
	}
	if len(d.Hooks) > 0 {
		text.WriteString("\nstart order\n")
	}
	for i, h := range d.Hooks {
		owner := string(h.Module)
		if h.Part != "" {
			owner = fmt.Sprintf("%s, part %q", owner, h.Part)
		}
		fmt.Fprintf(&text, "  %d. %s of %s (%s): %s%s", i+1, h.Name, owner, h.Location, h.State, times(h))
		if h.Error != "" {
			text.WriteString(": " + h.Error)
		}
		text.WriteString("\n")
	}
	_, err := io.WriteString(w, cli.Printable(text.String()))
	return err
}

func took(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return ", " + d.Round(time.Microsecond).String()
}

// times says how long the start of a hook took, and its stop.
func times(h hive.HookDescription) string {
	if h.Stop == 0 {
		return took(h.Start)
	}
	start := ""
	if h.Start > 0 {
		start = took(h.Start) + " to start"
	}
	return start + took(h.Stop) + " to stop"
}

func list(text *strings.Builder, what string, all []string) {
	if len(all) > 0 {
		fmt.Fprintf(text, "    %s %s\n", what, strings.Join(all, ", "))
	}
}

// writeDot writes a cluster for each module and an arrow from what needs to what makes.
func writeDot(w io.Writer, d hive.Description) error {
	var text strings.Builder
	text.WriteString("digraph hive {\n  rankdir=LR\n  node [shape=box]\n")
	var edges strings.Builder
	drawn := drawn(d)
	for i, m := range d.Cells.Modules {
		fmt.Fprintf(&text, "  subgraph cluster_%d {\n    label=%q\n", i, m.ID)
		for _, f := range m.Functions {
			writeNode(&text, &edges, drawn, f)
		}
		text.WriteString("  }\n")
	}
	text.WriteString(edges.String() + "}\n")
	_, err := io.WriteString(w, text.String())
	return err
}

func writeNode(nodes, edges *strings.Builder, drawn map[string]bool, f cell.FunctionDescription) {
	if f.BuiltIn {
		return
	}
	id := nodeID(f)
	style := ""
	if !f.Used {
		style = ", style=dashed"
	}
	fmt.Fprintf(nodes, "    %q [label=%q%s]\n", id, f.Verb+" "+f.Name+"\n"+strings.Join(f.Provides, "\n"), style)
	for _, from := range f.From {
		if !drawn[from] {
			continue
		}
		fmt.Fprintf(edges, "  %q -> %q\n", id, from)
	}
}

// drawn are the nodes: what is not the hive's own, which is everywhere.
func drawn(d hive.Description) map[string]bool {
	all := make(map[string]bool)
	for _, m := range d.Cells.Modules {
		for _, f := range m.Functions {
			all[nodeID(f)] = !f.BuiltIn
		}
	}
	return all
}

func nodeID(f cell.FunctionDescription) string { return f.Name + " (" + f.Location + ")" }

// writeFound writes what is wrong and what nothing uses, and reports whether there is any.
func writeFound(w io.Writer, d hive.Description, faults error) (found bool, err error) {
	unused := d.Cells.Unused()
	var text strings.Builder
	if faults != nil {
		fmt.Fprintln(&text, faults)
	}
	for _, m := range d.Cells.Modules {
		for _, f := range unused[m.ID] {
			fmt.Fprintf(&text, "%s: %s %s (%s): nothing uses %s\n", m.ID, f.Verb, f.Name, f.Location, strings.Join(f.Provides, ", "))
		}
	}
	if len(unused) == 0 && faults == nil {
		text.WriteString("everything that is provided is used\n")
	}
	_, err = io.WriteString(w, cli.Printable(text.String()))
	return faults != nil || len(unused) > 0, err
}
