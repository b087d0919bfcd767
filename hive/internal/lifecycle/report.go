package lifecycle

import (
	"fmt"
	"time"

	"github.com/statehive/statehive/hive/cell"
)

// State is the state of a function of a hook. The zero State means that it has not been called, or is nil.
type State string

// The states.
const (
	Running State = "running"
	Ran     State = "ran" // or was abandoned; see the error
)

// Report describes the state of a hook.
type Report struct {
	Name     string            `json:"name"`
	Module   cell.FullModuleID `json:"module"`
	Location string            `json:"location"` // file:line of the call of Append
	Start    Action            `json:"start"`
	Stop     Action            `json:"stop"`
}

// Action is a call of one of the functions of a hook.
type Action struct {
	State    State         `json:"state,omitempty"`
	Started  time.Time     `json:"started,omitzero"`
	Duration time.Duration `json:"duration,omitempty"` // nanoseconds; 0 while it is running
	Error    string        `json:"error,omitempty"`
}

// Reports returns the reports of all hooks in start order.
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
	a.State, a.Duration = state, took
	if state == Running {
		a.Started = time.Now()
	}
	if err != nil {
		a.Error = fmt.Sprint(err)
	}
}
