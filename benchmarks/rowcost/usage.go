package main

import (
	"fmt"
	"io"
	"runtime"
)

// usage is how a program uses the libraries, and what one more row type that is
// used so may cost.
type usage struct {
	name       string
	reconciler bool
	pointer    bool
	goal       cost
	// later says that the goal is not yet to be reached.
	later bool
}

func usages() []usage {
	return []usage{
		{name: "table, rows by value", goal: cost{cpu: 0.15, kB: 60}},
		{name: "table, rows by pointer", pointer: true, goal: cost{cpu: 0.07, kB: 30}},
		{name: "table and reconciler, rows by value", reconciler: true, goal: cost{cpu: 0.3, kB: 130}, later: true},
		{name: "table and reconciler, rows by pointer", reconciler: true, pointer: true, goal: cost{cpu: 0.15, kB: 60}, later: true},
	}
}

// cost is seconds of CPU time and the size of a binary.
type cost struct{ cpu, kB float64 }

// difference is what one type costs, of so many.
func difference(more, less cost, types int) cost {
	n := float64(types)
	return cost{cpu: (more.cpu - less.cpu) / n, kB: (more.kB - less.kB) / n}
}

func writeHeader(w io.Writer) error {
	_, err := fmt.Fprintf(w, `What one more row type costs; %s, %d cores. Bold: the goal is missed. Goals in brackets are yet to come.

| use | CPU time of a build | goal | binary | goal |
|---|---|---|---|---|
`, runtime.Version(), runtime.NumCPU())
	return err
}

func (u usage) write(w io.Writer, c cost) error {
	_, err := fmt.Fprintf(w, "| %s | %s | %s |\n", u.name,
		u.judged("%.2f s", c.cpu, u.goal.cpu), u.judged("%.0f kB", c.kB, u.goal.kB))
	return err
}

// judged returns two cells: what is, bold when it should be less by now, and the goal.
func (u usage) judged(format string, is, goal float64) string {
	cell, wanted := fmt.Sprintf(format, is), "≤ "+fmt.Sprintf(format, goal)
	switch {
	case u.later:
		wanted = "(" + wanted + ")"
	case is > goal:
		cell = "**" + cell + "**"
	}
	return cell + " | " + wanted
}
