// Command rowcost measures what one more type of rows costs whoever builds on the
// libraries: CPU time of compilation and linking, and bytes of binary, for a table
// alone and for one with a reconciler, rows by value and by pointer. It writes a
// table in Markdown.
//
// Each figure is the difference between a program with 11 such types and one with
// 1, divided by 10. Of CPU time, which is that of the whole go build with all that
// the programs import compiled before, it takes the least of 3 builds.
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
	only := flag.String("only", "", "a regular expression: only what has such a name, such as 'table, .*'")
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
