// Command compare lets the contestants of package noop run in turn, several times
// over, and writes a table of their medians in Markdown.
//
// Turns make whatever else the machine does meet all of them alike. CPU time is
// that of the whole process, all cores together.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/statehive/statehive/benchmarks/noop"
)

func main() {
	rows := flag.Int("rows", 200_000, "how many rows a run reconciles")
	runs := flag.Int("runs", 5, "how often each contestant runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	results, err := contest(ctx, noop.Contestants(), *rows, *runs)
	if err == nil {
		err = writeTable(os.Stdout, results, *rows, *runs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}
