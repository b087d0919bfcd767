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
	goal       float64   // a ratio, or 0
	atMost     float64   // nanoseconds, or 0
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
	b.WriteString(ratio(ours, theirs) + l.wanted())
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

func ratio(ours, theirs *sample) string {
	if ours == nil || theirs == nil {
		return " – |"
	}
	return fmt.Sprintf(" %.1f |", theirs.nanoseconds/ours.nanoseconds)
}

func (l line) wanted() string {
	switch {
	case l.atMost > 0:
		return fmt.Sprintf(" ≤ %g ns |", l.atMost)
	case l.goal > 0:
		return fmt.Sprintf(" %g |", l.goal)
	}
	return " – |"
}

// propagation is the name of what is measured by the clock.
const propagation = "propagation from table to table, p50 and p99 by the clock"

// comparePropagation writes the medians of both percentiles over the runs.
func comparePropagation(w io.Writer, makers []tables.Maker, runs int) error {
	const times = 5_000
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |", propagation)
	middles := make([]float64, len(makers))
	for i, m := range makers {
		var p50s, p99s []sample
		for range runs {
			p50, p99, ok, err := tables.Propagation(m, times)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", propagation, m.Name, err)
			}
			if ok {
				p50s, p99s = append(p50s, sample{nanoseconds: float64(p50)}), append(p99s, sample{nanoseconds: float64(p99)})
			}
		}
		if len(p50s) == 0 {
			b.WriteString(" – |")
			continue
		}
		nanoseconds := func(s sample) float64 { return s.nanoseconds }
		middles[i] = median(p50s, nanoseconds)
		fmt.Fprintf(&b, " %.1f µs, %.1f µs |", middles[i]/1e3, median(p99s, nanoseconds)/1e3)
	}
	fmt.Fprintf(&b, " %.1f | – |\n", middles[len(middles)-1]/middles[0])
	_, err := io.WriteString(w, b.String())
	return err
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
	fmt.Fprintf(&b, " %.1f |%s\n", bytes[len(bytes)-1]/bytes[0], l.wanted())
	_, err := io.WriteString(w, b.String())
	return err
}
