package job

import (
	"sync"

	"github.com/statehive/statehive/hive/health"
)

// jobHealth is the health of a job. What the job's function reports is reported at once. What the job says of itself is
// reported when its row is written, and not at all if it has become void by then.
type jobHealth struct {
	inner health.Health

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
	fn()
}

// say is a report, OK or stopped, that is made when the row of the job is written. It is called before a change of the row.
func (h *jobHealth) say(level health.Level, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.level, h.message = level, message
}

// flush makes the report that say has left.
func (h *jobHealth) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.level {
	case health.OK:
		h.inner.OK(h.message)
	case health.Stopped:
		h.inner.Stopped(h.message)
	}
	h.level = 0
}
