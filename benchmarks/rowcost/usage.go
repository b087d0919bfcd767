package main

import (
	"fmt"
	"io"
	"runtime"
)

// usage is a way to use the libraries, and the goal for its cost of one more row type.
type usage struct {
	name       string
	reconciler bool
	pointer    bool
	goal       cost
	later      bool // the goal need not be reached yet
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

// difference returns the cost of one of the types that more has in addition to less.
func difference(more, less cost, types int) cost {
	n := float64(types)
	return cost{cpu: (more.cpu - less.cpu) / n, kB: (more.kB - less.kB) / n}
}

func writeHeader(w io.Writer) error {
	_, err := fmt.Fprintf(w, `What one more row type costs; %s, %d cores. Bold: the goal is missed. Goals in brackets need not be reached yet.

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

// judged returns two cells: the value, in bold if it misses a goal to be reached now, and the goal.
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
