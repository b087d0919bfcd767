// Package noop lets reconcilers work through rows for which there is nothing to
// do, so that what is left is what a framework costs.
//
// Each of the [Contestants] gets as many keys as rows, each once, from one
// goroutine, and has run when all were reconciled. Ours writes rows into a table,
// 1,000 in a transaction, and is done when the status of each is written back.
// Those on controller-runtime get bare keys put straight into the controller's
// queue: no API server, no cache, no rows, and no status is written. Each
// counts and times what it does for Prometheus, as it would in earnest.
//
// Contestants run one at a time.
package noop

import (
	"context"
	"slices"
)

// A Contestant works through rows.
type Contestant struct {
	Name    string
	Workers int
	// Run lets it work through n rows, and returns how often it was asked to
	// reconcile one.
	Run func(ctx context.Context, n int) (reconciled int, err error)
}

// Contestants returns all of them. The first is what the others are compared with.
func Contestants() []Contestant {
	return slices.Concat(
		contestants("controller-runtime, FIFO queue", runController(fifo)),
		contestants("controller-runtime, priority queue", runController(priority)),
		contestants("Statehive, sequential ids", runStatehive(sequential)),
		contestants("Statehive, random ids", runStatehive(random)),
	)
}

type run func(ctx context.Context, n, workers int) (int, error)

func contestants(name string, run run) []Contestant {
	var all []Contestant
	for _, workers := range []int{1, 4} {
		all = append(all, Contestant{name, workers, func(ctx context.Context, n int) (int, error) {
			return run(ctx, n, workers)
		}})
	}
	return all
}
