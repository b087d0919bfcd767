// Command versions compares the tables of this tree with those of an earlier
// commit and writes the medians as a table in Markdown.
//
// It checks the commit out into a temporary worktree, builds itself with both
// trees, once for rows by value and once for rows by pointer, and has the
// programs measure in turn: whatever else the machine does meets both alike.
// Each measurement runs in a process of its own. What is measured, and what is
// wanted of it, is the list in work.go.
//
// Its source has to compile with both trees. It therefore uses the public API of
// statedb only, and leaves the type of a table to inference.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"
)

// options are the flags of the command.
type options struct {
	base      string
	runs      int
	only      string
	benchtime time.Duration
	measure   string
}

func main() {
	var o options
	flag.StringVar(&o.base, "base", "066e8e7", "the commit to compare with")
	flag.IntVar(&o.runs, "runs", 5, "how often each program measures")
	flag.StringVar(&o.only, "only", "", "a regular expression: only what has such a name, such as 'get.*by pointer'")
	flag.DurationVar(&o.benchtime, "benchtime", 500*time.Millisecond, "how long a measurement takes, about")
	flag.StringVar(&o.measure, "measure", "", "measure what has this name in this process, and nothing else: what the command calls itself with")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := o.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "versions:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context, w io.Writer) error {
	if o.measure != "" {
		s, err := measureNamed(o.measure, o.benchtime)
		if err == nil {
			err = s.write(w)
		}
		return err
	}
	if o.runs <= 0 || o.benchtime <= 0 {
		return fmt.Errorf("%d runs of %v: both must be positive", o.runs, o.benchtime)
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	return o.compare(ctx, w, only)
}

// compare writes each line of the table as soon as it is measured.
func (o options) compare(ctx context.Context, w io.Writer, only *regexp.Regexp) (err error) {
	b, err := build(ctx, o.base)
	if err != nil {
		return err
	}
	defer func() {
		if removed := b.remove(ctx); err == nil {
			err = removed
		}
	}()
	if err := writeHeader(w, b.versions, o.runs); err != nil {
		return err
	}
	for _, work := range works() {
		for _, kind := range kinds {
			l := line{name: work.name + ", by " + kind, goal: work.goal, by: work.by}
			if !only.MatchString(l.name) {
				continue
			}
			if err := l.measure(ctx, b, work, kind, o); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			if err := l.write(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure has the programs of both versions work in turn.
func (l *line) measure(ctx context.Context, b *built, w work, kind string, o options) error {
	var samples [2][]sample
	for range o.runs {
		for version := range samples {
			s, err := b.measure(ctx, version, kind, w.name, o.benchtime)
			if err != nil {
				return err
			}
			samples[version] = append(samples[version], s)
		}
	}
	l.base, l.now = medians(samples[0]), medians(samples[1])
	return nil
}
