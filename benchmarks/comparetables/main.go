// Command comparetables lets the stores of package tables do their work in turn,
// several times over, and writes a table of the medians in Markdown.
//
// Turns make whatever else the machine does meet all of them alike. Times are CPU
// times of the whole process, the collector included, all cores together: they
// say more than the clock on a machine that others use.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"

	"github.com/statehive/statehive/benchmarks/tables"
)

func main() {
	runs := flag.Int("runs", 5, "how often each store does everything")
	large := flag.Int("large", 100_000, "how many rows a large table has; a multiple of 5000")
	rows := flag.Int("heap", 1_000_000, "how many rows to measure the heap with; 0: not at all")
	work := flag.String("work", "", "a regular expression: only work with such a name")
	flag.Parse()
	if err := compare(*work, *runs, *large, *rows); err != nil {
		fmt.Fprintln(os.Stderr, "comparetables:", err)
		os.Exit(1)
	}
}

func compare(work string, runs, large, rows int) error {
	if runs <= 0 || rows < 0 || large < 5_000 {
		return fmt.Errorf("%d runs, %d rows and large tables of %d: too few", runs, rows, large)
	}
	wanted, err := regexp.Compile(work)
	if err != nil {
		return fmt.Errorf("-work: %w", err)
	}
	makers := tables.Makers()
	if err := writeHeader(os.Stdout, makers, runs); err != nil {
		return err
	}
	for _, w := range tables.Workloads(large) {
		if !wanted.MatchString(w.Name) {
			continue
		}
		l, err := medians(makers, w, runs)
		if err == nil {
			err = l.write(os.Stdout)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	if wanted.MatchString(propagation) {
		if err := comparePropagation(os.Stdout, makers, runs); err != nil {
			return err
		}
	}
	if rows == 0 {
		return nil
	}
	return compareHeap(os.Stdout, makers, rows)
}
