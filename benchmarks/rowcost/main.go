// Command rowcost measures the cost of one more row type in a program that uses the libraries:
// the CPU time of compiling and linking it, and the size of the binary, for a table alone and
// for a table with a reconciler, with rows by value and by pointer. It prints a table in
// Markdown.
//
// Each figure is the difference between a program with 11 row types and one with a single row
// type, divided by 10. The CPU time is that of go build, with all imported packages compiled
// beforehand; it is the minimum of 3 builds.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
)

func main() {
	only := flag.String("only", "", "measure only the uses whose names match this regular expression, such as 'table, .*'")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rowcost:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, pattern string) (err error) {
	only, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	dir, err := os.MkdirTemp("", "rowcost-")
	if err != nil {
		return err
	}
	defer func() {
		if removed := os.RemoveAll(dir); err == nil {
			err = removed
		}
	}()
	if err := writeHeader(w); err != nil {
		return err
	}
	for _, u := range usages() {
		if !only.MatchString(u.name) {
			continue
		}
		c, err := u.perType(ctx, dir)
		if err == nil {
			err = u.write(w, c)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", u.name, err)
		}
	}
	return nil
}
