package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/statehive/statehive/benchmarks/noop"
)

// sample is what a row took in one run.
type sample struct {
	time, cpu      time.Duration // of all rows
	bytes, mallocs float64
}

// result is the samples of a contestant.
type result struct {
	noop.Contestant
	samples []sample
}

func contest(ctx context.Context, contestants []noop.Contestant, rows, runs int) ([]result, error) {
	if rows <= 0 || runs <= 0 {
		return nil, fmt.Errorf("%d runs of %d rows: both must be positive", runs, rows)
	}
	var results []result
	for _, c := range contestants {
		results = append(results, result{Contestant: c})
	}
	for range runs {
		for i := range results {
			s, err := measure(ctx, results[i].Contestant, rows)
			if err != nil {
				return nil, fmt.Errorf("%s, %d workers: %w", results[i].Name, results[i].Workers, err)
			}
			results[i].samples = append(results[i].samples, s)
		}
	}
	return results, nil
}

func measure(ctx context.Context, c noop.Contestant, rows int) (sample, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, err := cpuTime()
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	reconciled, err := c.Run(ctx, rows)
	if err != nil {
		return sample{}, err
	}
	if reconciled < rows {
		return sample{}, fmt.Errorf("reconciled %d of %d rows", reconciled, rows)
	}
	took := time.Since(began)
	used, err := cpuTime()
	runtime.ReadMemStats(&after)
	return sample{
		time: took, cpu: used - cpu,
		bytes:   float64(after.TotalAlloc-before.TotalAlloc) / float64(rows),
		mallocs: float64(after.Mallocs-before.Mallocs) / float64(rows),
	}, err
}

func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

// median returns the one in the middle, or the upper one of two.
func median[T cmp.Ordered](samples []sample, of func(sample) T) T {
	values := make([]T, 0, len(samples))
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
