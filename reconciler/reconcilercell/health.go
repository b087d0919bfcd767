package reconcilercell

import (
	"sync"

	"github.com/statehive/statehive/hive/health"
)

// report is the health that a reconciler last reported.
type report struct {
	level   health.Level
	message string
	err     error
}

// reporter passes a reconciler's health on to its job's, and remembers it. It is
// safe for concurrent use.
type reporter struct {
	mu   sync.Mutex
	job  health.Health // nil until the job runs
	last report
}

func (r *reporter) begin(job health.Health) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.job = job
}

func (r *reporter) OK(message string)                  { r.set(report{health.OK, message, nil}) }
func (r *reporter) Degraded(message string, err error) { r.set(report{health.Degraded, message, err}) }

func (r *reporter) Stopped(message string) { r.set(report{health.Stopped, message, nil}) }

func (r *reporter) set(to report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = to
	switch to.level {
	case health.OK:
		r.job.OK(to.message)
	case health.Degraded:
		r.job.Degraded(to.message, to.err)
	case health.Stopped:
		r.job.Stopped(to.message)
	}
}

// get returns the last report; before the first one it is Stopped.
func (r *reporter) get() report {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.level == 0 {
		return report{level: health.Stopped, message: "not started"}
	}
	return r.last
}
