package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options are what is measured, and how. They go to the trials as JSON.
type options struct {
	Agent     string        // the program, an absolute path
	Routes    int           // how many routes there are
	Addresses int           // how many addresses, half of them IPv6
	Devices   int           // how many links they are on
	Links     int           // how many links, a quarter of them bridges
	Objects   int           // how many rules, neighbors and files, how many nft rules, and elements of an nft set
	Changes   int           // how many single rows are changed
	Drifts    int           // how many single routes are removed behind the agent's back
	Runs      int           // how often everything is measured that has a peer
	Idle      time.Duration // how long the agent is watched while nothing happens
	Deadline  time.Duration // after which a phase is given up
	Only      string        // the letters of what is measured; empty: all
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kernel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if name, inside := os.LookupEnv(trialVariable); inside {
		return runTrial(ctx, name)
	}
	o, err := parseOptions(os.Args[1:])
	if err != nil {
		return err
	}
	all, err := measureAll(ctx, o)
	if err != nil {
		return err
	}
	return writeTable(os.Stdout, o, all, describeMachine(ctx))
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("kernel", flag.ContinueOnError)
	flags.StringVar(&o.Agent, "agent", "bin/statehive", "the agent's program")
	flags.IntVar(&o.Routes, "routes", 100_000, "how many routes there are")
	flags.IntVar(&o.Addresses, "addresses", 20_000, "how many addresses there are, half of them IPv6")
	flags.IntVar(&o.Devices, "devices", 100, "how many links the addresses are on")
	flags.IntVar(&o.Links, "links", 2_000, "how many links there are, a quarter of them bridges")
	flags.IntVar(&o.Objects, "objects", 10_000, "how many rules, neighbors and files there are, how many nft rules, and elements of an nft set")
	flags.IntVar(&o.Changes, "changes", 500, "how many single rows are changed")
	flags.IntVar(&o.Drifts, "drifts", 200, "how many single routes are removed behind the agent's back")
	flags.IntVar(&o.Runs, "runs", 3, "how often everything is measured that has a peer")
	flags.DurationVar(&o.Idle, "idle", time.Minute, "how long the agent is watched while nothing happens")
	flags.DurationVar(&o.Deadline, "deadline", 10*time.Minute, "after which a phase is given up")
	flags.StringVar(&o.Only, "only", "", "the letters of what is measured, such as abd: "+sectionsHelp())
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	o.Agent, err = filepath.Abs(o.Agent)
	return o, errors.Join(err, o.check())
}

// fewest is how many deletes are held for sure, whatever part of a table they are.
const fewest = 20

func (o options) check() error {
	switch {
	case o.Routes < fewest || o.Addresses < fewest || o.Links < fewest:
		return fmt.Errorf("%d routes, %d addresses and %d links: expected at least %d of each, so that the change limit holds their removal",
			o.Routes, o.Addresses, o.Links, fewest)
	case o.Routes > maxRoutes || o.Addresses > maxAddresses || o.Links > maxLinks:
		return fmt.Errorf("%d routes, %d addresses and %d links: expected at most %d, %d and %d",
			o.Routes, o.Addresses, o.Links, maxRoutes, maxAddresses, maxLinks)
	case o.Objects < fewest*rulesOfTable || o.Objects > maxObjects:
		return fmt.Errorf("-objects is %d: expected %d to %d, which are enough tables that the change limit holds their removal",
			o.Objects, fewest*rulesOfTable, maxObjects)
	case o.Devices < 1 || o.Devices > maxDevices:
		return fmt.Errorf("-devices is %d: expected 1 to %d", o.Devices, maxDevices)
	case o.Runs < 1 || o.Changes < 1 || o.Drifts < 1:
		return errors.New("-runs, -changes and -drifts: expected at least 1 of each")
	case o.Drifts > o.Routes/2:
		return fmt.Errorf("-drifts is %d: expected at most half of the %d routes", o.Drifts, o.Routes)
	}
	for _, letter := range o.Only {
		if _, known := sections[letter]; !known {
			return fmt.Errorf("-only: there is no %q; there are: %s", letter, sectionsHelp())
		}
	}
	return nil
}
