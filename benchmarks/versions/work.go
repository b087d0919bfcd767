package main

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// A measure is what a goal is about.
type measure int

const (
	clockTime measure = iota // nanoseconds
	cpuTime                  // nanoseconds of all cores, the garbage collector included
	heapBytes
)

// work is something to do with tables.
type work struct {
	name string
	// goal is what is wanted: at least so many times better than the base. Of bytes
	// nothing is wanted but that they are not more.
	goal float64
	by   measure
	open opening
}

// An opening prepares work. It returns what does it once, and how many rows or
// operations that is. Where memory is measured, it is what this function keeps.
type opening func() (once func() error, units int, err error)

// works returns everything that is measured.
func works() []work {
	const large = 100_000
	return []work{
		{"transaction of 1 hot row", 3, clockTime, hotRows(1)},
		{"transaction of 10 hot rows", 2, clockTime, hotRows(10)},
		{"transaction of 100 hot rows", 1.6, clockTime, hotRows(100)},
		{"transaction of 1,000 hot rows", 1.6, clockTime, hotRows(1_000)},
		{"transaction of 100 hot rows with a secondary index", 1.6, clockTime, hotRows(100, byGroup)},
		{"modify, 1,000 hot rows", 1.9, clockTime, modify(1_000)},
		{"get and compare-and-swap, 1,000 hot rows", 1.9, clockTime, compareAndSwap(1_000)},
		{"cursor cycle: insert 1,000 rows, read, delete, read", 1.5, clockTime, cursorCycle(1_000)},
		{"empty commit", 3.5, clockTime, emptyCommit},
		{"replace random of 100,000 rows, 1 at a time", 1.5, cpuTime, replaceRandom(large, 1)},
		{"replace random of 100,000 rows, 100 at a time", 1.1, cpuTime, replaceRandom(large, 100)},
		{"replace random of 100,000 rows, 1,000 at a time", 1.1, cpuTime, replaceRandom(large, 1_000)},
		{"get of 1,000 rows", 2, clockTime, get(1_000)},
		{"get of 100,000 rows", 1.7, clockTime, get(large)},
		{"iterate over 1,000 rows", 1.8, clockTime, iterate(1_000)},
		{"iterate over 100,000 rows", 1.8, clockTime, iterate(large)},
		{"list 1,000 of 100,000 rows by secondary key", 2, clockTime, listGroup(large)},
		{"lower bound and 10 of 100,000 rows", 1.6, clockTime, lowerBound(large, 10)},
		{"longest prefix: insert 10,000 networks, 100 at a time", 1.5, clockTime, insertNetworks(10_000, 100)},
		{"longest prefix: get of 10,000 networks", 1.5, clockTime, getNetwork(10_000)},
		{"bytes per row, of 100,000", 1, heapBytes, fillTable(large)},
		{"bytes per row with a secondary index, of 100,000", 1, heapBytes, fillTable(large, byGroup)},
	}
}

// sample is what one row or operation took.
type sample struct{ clock, cpu, bytes float64 }

// measureNamed measures the work with this name.
func measureNamed(name string, benchtime time.Duration) (sample, error) {
	for _, w := range works() {
		switch {
		case w.name != name:
		case w.by == heapBytes:
			return w.measureHeap()
		default:
			return w.measureTime(benchtime)
		}
	}
	return sample{}, fmt.Errorf("nothing is called %q", name)
}

// measureTime finds out, which also warms up, how often the work fits into about
// so much time, and then measures it.
func (w work) measureTime(benchtime time.Duration) (sample, error) {
	once, units, err := w.open()
	if err != nil {
		return sample{}, err
	}
	times := 1
	for {
		s, err := timed(once, times)
		if err != nil {
			return sample{}, err
		}
		if s.clock >= float64(benchtime)/8 {
			times = max(1, int(float64(times)*float64(benchtime)/s.clock))
			break
		}
		times *= 2
	}
	runtime.GC()
	s, err := timed(once, times)
	n := float64(times * units)
	return sample{clock: s.clock / n, cpu: s.cpu / n}, err
}

func timed(once func() error, times int) (sample, error) {
	cpu, err := cpuUsed()
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	for range times {
		if err := once(); err != nil {
			return sample{}, err
		}
	}
	took := time.Since(began)
	used, err := cpuUsed()
	return sample{clock: float64(took), cpu: float64(used - cpu)}, err
}

func cpuUsed() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

func (w work) measureHeap() (sample, error) {
	before := heapInUse()
	once, units, err := w.open()
	after := heapInUse()
	runtime.KeepAlive(once)
	return sample{bytes: float64(after-before) / float64(units)}, err
}

func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
