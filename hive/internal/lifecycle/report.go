package lifecycle

import (
	"time"

	"github.com/statehive/statehive/hive/cell"
)

// State is how far one of the functions of a hook is. The zero State is that it has not been called, or that there is none.
type State string

// The states.
const (
	Running State = "running"
	Ran     State = "ran" // or was left behind: see the error
)

// Report is what is known of a hook.
type Report struct {
	Name   string            `json:"name"`
	Module cell.FullModuleID `json:"module"`
	Place  string            `json:"place"` // where it was appended
	Start  Action            `json:"start"`
	Stop   Action            `json:"stop"`
}

// Action is a call of one of the functions of a hook.
type Action struct {
	State State         `json:"state,omitempty"`
	Began time.Time     `json:"began,omitzero"`
	Took  time.Duration `json:"took,omitempty"` // nanoseconds; 0 while it is running
	Error string        `json:"error,omitempty"`
}

// Reports are those of all hooks, in the order in which they start.
func (l *Lifecycle) Reports() []Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Report, len(l.hooks))
	for i, h := range l.hooks {
		all[i] = h.report
	}
	return all
}

func (l *Lifecycle) note(h *hook, action string, state State, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &h.report.Start
	if action == "stop" {
		a = &h.report.Stop
	}
	a.State, a.Took = state, took
	if state == Running {
		a.Began = time.Now()
	}
	if err != nil {
		a.Error = err.Error()
	}
}
