package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// trial is what one process measures in its namespaces.
type trial struct {
	options

	dir string // for its files, empty at first
	out *json.Encoder
}

// trials are known by name. Those of a line in [schedule] alternate.
var trials = map[string]func(context.Context, *trial) error{
	"routes":       routesOfAgent,
	"routes by ip": routesByIP,
	"addresses":    addressesOfAgent,
	"addresses by ip": func(ctx context.Context, t *trial) error {
		all := addresses(t.Addresses, t.Devices)
		base := deviceBatch(t.devices())
		return t.batches(ctx, base, addressBatch(all, "add"), addressBatch(all, "del"), addressesAdded, addressesRemoved)
	},
	"links": linksOfAgent,
	"links by ip": func(ctx context.Context, t *trial) error {
		all := links(t.Links)
		return t.batches(ctx, "", linkBatch(all), linkRemoval(all), linksAdded, linksRemoved)
	},
	"rules":             rulesOfAgent,
	"rules by ip":       rulesByIP,
	"neighbors":         neighborsOfAgent,
	"neighbors by ip":   neighborsByIP,
	"nft tables":        tablesOfAgent,
	"nft tables by nft": tablesByNFT,
	"nft set":           setOfAgent,
	"nft set by nft":    setByNFT,
	"files":             filesOfAgent,
	"files by copying":  filesByCopy,
	"validate":          validate,
	"one row":           singleRows,
}

// schedule returns the trials of a run, in order.
func schedule(o options, run int) (names []string) {
	for _, group := range []struct {
		sections string
		trials   []string
	}{
		{"ab", []string{"routes", "routes by ip"}},
		{"c", []string{"addresses", "addresses by ip"}},
		{"c", []string{"links", "links by ip"}},
		{"h", []string{"rules", "rules by ip"}},
		{"i", []string{"neighbors", "neighbors by ip"}},
		{"j", []string{"nft tables", "nft tables by nft"}},
		{"k", []string{"nft set", "nft set by nft"}},
		{"l", []string{"files", "files by copying"}},
		{"m", []string{"validate"}},
	} {
		if run%2 == 1 {
			slices.Reverse(group.trials)
		}
		if o.wants(group.sections) {
			names = append(names, group.trials...)
		}
	}
	if !o.wants("ab") && o.wants("den") {
		names = append(names, "routes")
	}
	if run == 0 && o.wants("fg") {
		names = append(names, "one row")
	}
	return names
}

// measureAll runs all trials. A trial that fails leaves out figures; what went wrong
// is told at once, and the others go on.
func measureAll(ctx context.Context, o options) (figures, error) {
	var all figures
	for run := range o.Runs {
		here := o
		if run > 0 {
			here.Idle = 0 // once is enough
		}
		for _, name := range schedule(o, run) {
			progress("run %d of %d: %s", run+1, o.Runs, name)
			some, err := isolated(ctx, here, name)
			all = append(all, some...)
			if ctx.Err() != nil {
				return all, context.Cause(ctx)
			}
			if err != nil {
				progress("%v", err)
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("nothing could be measured")
	}
	return all, nil
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// runTrial is the main function inside the namespaces.
func runTrial(ctx context.Context, name string) (err error) {
	measure, known := trials[name]
	if !known {
		return fmt.Errorf("no trial is named %q; there are: %s", name, strings.Join(slices.Sorted(maps.Keys(trials)), ", "))
	}
	t := &trial{out: json.NewEncoder(os.Stdout)}
	if err := json.Unmarshal([]byte(os.Getenv(optionsVariable)), &t.options); err != nil {
		return fmt.Errorf("%s: %w", optionsVariable, err)
	}
	if err := enter(); err != nil {
		return err
	}
	if t.dir, err = os.MkdirTemp("", "statehive-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(t.dir)) }()
	return measure(ctx, t)
}

// phase measures one figure of a contestant, in seconds unless measure returns
// something else. An error is a figure, too; nothing that depends on it can follow.
func (t *trial) phase(ctx context.Context, name, of string, measure func(context.Context) (float64, error)) error {
	bounded, cancel := context.WithTimeout(ctx, t.Deadline)
	defer cancel()
	value, err := measure(bounded)
	f := figure{Name: name, Of: of, Value: value}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() != nil && err != nil:
		f.Error = fmt.Sprintf("did not finish within %v", t.Deadline)
		err = fmt.Errorf("%s of %s %s: %w", name, of, f.Error, err)
	case err != nil:
		f.Error = err.Error()
		err = fmt.Errorf("%s of %s: %w", name, of, err)
	}
	return errors.Join(err, t.out.Encode(f))
}

// note is a figure that is known.
func (t *trial) note(name, of string, value float64) error {
	return t.out.Encode(figure{Name: name, Of: of, Value: value})
}

// pause waits for some time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
