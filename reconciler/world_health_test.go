package reconciler_test

import (
	"fmt"
	"slices"
	"sync"
)

// healthLog keeps what health was told.
type healthLog struct {
	mu      sync.Mutex
	log     []string
	lastErr error
}

func (h *healthLog) OK(message string)      { h.add("ok: " + message) }
func (h *healthLog) Stopped(message string) { h.add("stopped: " + message) }

func (h *healthLog) Degraded(message string, err error) {
	if err != nil {
		message = fmt.Sprintf("%s: %v", message, err)
	}
	h.add("degraded: " + message)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastErr = err
}

// err returns the error of the last report that had one.
func (h *healthLog) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastErr
}

// distinct returns what was told, without repetitions.
func (h *healthLog) distinct() []string { return slices.Compact(h.since(0)) }

func (h *healthLog) add(report string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, report)
}

// since returns what was told after the first n reports.
func (h *healthLog) since(n int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.log[min(n, len(h.log)):]...)
}

func (h *healthLog) last() string {
	log := h.since(0)
	return log[len(log)-1]
}

// tally is what was counted.
type tally struct {
	incremental, incrementalErrors, full, fullErrors, outOfSync, drift, errorsCurrent int
}

// metrics returns what was counted so far, by the reconcilers before too.
func (w *world) metrics() (t tally) {
	for _, r := range w.made {
		s := r.Stats()
		t.incremental += int(s.Incremental.Count)
		t.incrementalErrors += int(s.IncrementalErrors)
		t.full += int(s.Full.Count)
		t.fullErrors += int(s.FullErrors)
		t.outOfSync += int(s.OutOfSync)
		t.drift += int(s.Drift)
		t.errorsCurrent = s.Errors
	}
	return t
}
