package main

import (
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/statehive/statehive/benchmarks/tables"
)

// sample is what one row or operation took.
type sample struct{ nanoseconds, bytes, mallocs float64 }

// medians lets the stores work in turn, each run beginning with another one: what
// one leaves behind in memory is not always met by the same. A store that cannot do
// it has no samples.
func medians(makers []tables.Maker, w tables.Workload, runs int) (line, error) {
	l := line{name: w.Name, unit: w.Unit, goal: w.Goal, atMost: w.AtMost, of: make([]*sample, len(makers))}
	samples := make([][]sample, len(makers))
	for run := range runs {
		for turn := range makers {
			i := (run + turn) % len(makers)
			s, ok, err := measure(makers[i], w)
			if err != nil {
				return line{}, err
			}
			if ok {
				samples[i] = append(samples[i], s)
			}
		}
	}
	for i, some := range samples {
		if len(some) > 0 {
			l.of[i] = &sample{
				median(some, func(s sample) float64 { return s.nanoseconds }),
				median(some, func(s sample) float64 { return s.bytes }),
				median(some, func(s sample) float64 { return s.mallocs }),
			}
		}
	}
	return l, nil
}

func measure(m tables.Maker, w tables.Workload) (s sample, ok bool, err error) {
	store, err := m.New(w.Secondaries, w.Tables)
	if err != nil {
		return sample{}, false, err
	}
	run, count, err := w.Prepare(store)
	if err != nil || count == 0 {
		return sample{}, false, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, err := cpuTime()
	if err == nil {
		err = run()
	}
	if err != nil {
		return sample{}, false, err
	}
	ended, err := cpuTime()
	runtime.ReadMemStats(&after)
	n := float64(count)
	return sample{
		nanoseconds: float64((ended - began).Nanoseconds()) / n,
		bytes:       float64(after.TotalAlloc-before.TotalAlloc) / n,
		mallocs:     float64(after.Mallocs-before.Mallocs) / n,
	}, true, err
}

func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

// median returns the one in the middle, or the upper one of two.
func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
