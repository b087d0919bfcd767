package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// writeTable writes medians, and how they compare with those of the first result.
func writeTable(w io.Writer, results []result, rows, runs int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d runs in turn, %d rows each, nothing to do for any of them; %s, %d cores used.\n",
		runs, rows, runtime.Version(), runtime.GOMAXPROCS(0))
	b.WriteString("Statehive writes the rows and a status for each; controller-runtime gets bare keys and writes nothing.\n\n")
	b.WriteString("| reconciler | workers | rows/s | ratio | CPU per row | ratio | B/row | allocs/row |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	first := mediansOf(results[0], rows)
	for _, r := range results {
		m := mediansOf(r, rows)
		fmt.Fprintf(&b, "| %s | %d | %.0f | %.2f | %.0f ns | %.2f | %.0f | %.1f |\n", r.Name, r.Workers,
			m.rate, m.rate/first.rate, m.cpu, first.cpu/m.cpu, m.bytes, m.mallocs)
	}
	b.WriteString("\nA ratio above 1 is better than the first line.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// medians are those of one result: rows a second, and by row nanoseconds,
// bytes and allocations.
type medians struct{ rate, cpu, bytes, mallocs float64 }

func mediansOf(r result, rows int) medians {
	took := median(r.samples, func(s sample) time.Duration { return s.time })
	cpu := median(r.samples, func(s sample) time.Duration { return s.cpu })
	return medians{
		rate:    float64(rows) / took.Seconds(),
		cpu:     float64(cpu.Nanoseconds()) / float64(rows),
		bytes:   median(r.samples, func(s sample) float64 { return s.bytes }),
		mallocs: median(r.samples, func(s sample) float64 { return s.mallocs }),
	}
}
