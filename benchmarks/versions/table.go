package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
)

// line is a line of the table: the medians of a measurement, and the goal.
type line struct {
	name      string
	goal      float64
	by        measure
	base, now sample
}

func writeHeader(w io.Writer, versions [2]string, runs int) error {
	_, err := fmt.Fprintf(w, `Tables of %s (base) and %s (now), by row or operation: medians of %d runs in turn; %s, %d cores used.
A ratio above 1 is better than the base; bold: the goal is missed. A goal is for elapsed time unless it is marked CPU;
with other work on the machine only CPU time is meaningful.

| what | base | now | ratio | CPU, base | CPU, now | ratio | goal |
|---|---|---|---|---|---|---|---|
`, versions[0], versions[1], runs, runtime.Version(), runtime.GOMAXPROCS(0))
	return err
}

func (l line) write(w io.Writer) (err error) {
	clock, cpu := ratio(l.base.clock, l.now.clock), ratio(l.base.cpu, l.now.cpu)
	switch l.by {
	case heapBytes:
		// Whole bytes: fractions are not due to the table.
		base, now := math.Round(l.base.bytes), math.Round(l.now.bytes)
		_, err = fmt.Fprintf(w, "| %s | %.0f B | %.0f B | %s | – | – | – | not more |\n", l.name, base, now, judged(ratio(base, now), 1))
	case cpuTime:
		_, err = fmt.Fprintf(w, "| %s | %s | %s | %.2f | %s | %s | %s | CPU ≥ %g |\n", l.name,
			nanoseconds(l.base.clock), nanoseconds(l.now.clock), clock,
			nanoseconds(l.base.cpu), nanoseconds(l.now.cpu), judged(cpu, l.goal), l.goal)
	default:
		_, err = fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %.2f | ≥ %g |\n", l.name,
			nanoseconds(l.base.clock), nanoseconds(l.now.clock), judged(clock, l.goal),
			nanoseconds(l.base.cpu), nanoseconds(l.now.cpu), cpu, l.goal)
	}
	return err
}

func ratio(base, now float64) float64 { return base / now }

// judged formats a ratio, in bold if the goal is missed.
func judged(ratio, goal float64) string {
	if ratio < goal {
		return fmt.Sprintf("**%.2f**", ratio)
	}
	return fmt.Sprintf("%.2f", ratio)
}

func nanoseconds(n float64) string {
	if n < 100 {
		return fmt.Sprintf("%.1f ns", n)
	}
	return fmt.Sprintf("%.0f ns", n)
}

// medians returns the median of each figure.
func medians(samples []sample) sample {
	return sample{
		clock: median(samples, func(s sample) float64 { return s.clock }),
		cpu:   median(samples, func(s sample) float64 { return s.cpu }),
		bytes: median(samples, func(s sample) float64 { return s.bytes }),
	}
}

// median returns the median, or the upper one of two medians.
func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// write writes a sample in the form that readSample reads: a measuring process returns it so.
func (s sample) write(w io.Writer) error {
	_, err := fmt.Fprintln(w, s.clock, s.cpu, s.bytes)
	return err
}

func readSample(text string) (s sample, err error) {
	_, err = fmt.Sscanln(text, &s.clock, &s.cpu, &s.bytes)
	return s, err
}
