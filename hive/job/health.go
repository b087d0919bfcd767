package job

import (
	"runtime/debug"
	"sync"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
)

// jobHealth is the health of a job. Reports of the job's function are written at once; reports of the runner are written with the
// job's row, and dropped if superseded by then.
type jobHealth struct {
	inner health.Health // perhaps decorated by a cell: it may panic
	of    *runner

	mu      sync.Mutex
	level   health.Level // zero: nothing is to be reported
	message string
}

// OK implements health.Health.
func (h *jobHealth) OK(message string) { h.report(func() { h.inner.OK(message) }) }

// Degraded implements health.Health.
func (h *jobHealth) Degraded(message string, err error) {
	h.report(func() { h.inner.Degraded(message, err) })
}

// Stopped implements health.Health.
func (h *jobHealth) Stopped(message string) { h.report(func() { h.inner.Stopped(message) }) }

// NewScope implements health.Health.
func (h *jobHealth) NewScope(name string) (health.Health, error) { return h.inner.NewScope(name) }

// Close implements health.Health.
func (h *jobHealth) Close() { h.report(h.inner.Close) }

func (h *jobHealth) report(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.level = 0
	h.guarded(fn)
}

// guarded logs a panic of a report, which would otherwise end the process if the report is that of the runner.
func (h *jobHealth) guarded(report func()) {
	defer func() {
		if p := recover(); p != nil {
			h.of.logger().Error("Cannot report health", "error", &cell.PanicError{Value: p, Stack: debug.Stack()})
		}
	}()
	report()
}

// say reports OK or Stopped with the next write of the job's row. Call it before changing the row.
func (h *jobHealth) say(level health.Level, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.level, h.message = level, message
}

// flush makes the pending report of say.
func (h *jobHealth) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.level {
	case health.OK:
		h.guarded(func() { h.inner.OK(h.message) })
	case health.Stopped:
		h.guarded(func() { h.inner.Stopped(h.message) })
	}
	h.level = 0
}
