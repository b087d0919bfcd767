package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/statehive/statehive/benchmarks/tables"
)

// line is a workload with the medians of all stores.
type line struct {
	name, unit string
	goal       float64
	of         []*sample // nil for who cannot do it
}

func writeHeader(w io.Writer, makers []tables.Maker, runs int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "CPU time in ns and bytes allocated, by row or operation: medians of %d runs in turn; %s, %d cores used. The ratio is that of the first to the last.\n\n",
		runs, runtime.Version(), runtime.GOMAXPROCS(0))
	b.WriteString("| work |")
	for _, m := range makers {
		fmt.Fprintf(&b, " %s |", m.Name)
	}
	b.WriteString(" ratio | goal |\n|---|" + strings.Repeat("---|", len(makers)+2) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (l line) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |", l.name)
	for _, s := range l.of {
		if s == nil {
			b.WriteString(" – |")
			continue
		}
		fmt.Fprintf(&b, " %.0f ns, %.0f B |", s.nanoseconds, s.bytes)
	}
	ours, theirs := l.of[0], l.of[len(l.of)-1]
	b.WriteString(ratio(ours, theirs) + goal(l.goal))
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

func ratio(ours, theirs *sample) string {
	if ours == nil || theirs == nil {
		return " – |"
	}
	return fmt.Sprintf(" %.1f |", theirs.nanoseconds/ours.nanoseconds)
}

func goal(at float64) string {
	if at == 0 {
		return " – |"
	}
	return fmt.Sprintf(" %g |", at)
}

func compareHeap(w io.Writer, makers []tables.Maker, rows int) error {
	for _, secondaries := range []int{0, 1, 3} {
		for _, replaced := range []int{0, 2} {
			l := line{name: fmt.Sprintf("heap per row at %d, %d secondary indexes, replaced %d times", rows, secondaries, replaced), goal: 3}
			if err := l.writeHeap(w, makers, secondaries, rows, replaced); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l line) writeHeap(w io.Writer, makers []tables.Maker, secondaries, rows, replaced int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |", l.name)
	var bytes []float64
	for _, m := range makers {
		perRow, err := tables.Heap(m, secondaries, rows, replaced)
		if err != nil {
			return err
		}
		bytes = append(bytes, perRow)
		fmt.Fprintf(&b, " %.0f B |", perRow)
	}
	fmt.Fprintf(&b, " %.1f |%s\n", bytes[len(bytes)-1]/bytes[0], goal(l.goal))
	_, err := io.WriteString(w, b.String())
	return err
}
