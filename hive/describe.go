package hive

import (
	"cmp"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/lifecycle"
)

// Description is what a hive consists of, and how it started.
type Description struct {
	Name  string            `json:"name"`
	Cells cell.Description  `json:"cells"`
	Hooks []HookDescription `json:"hooks"` // in the order in which they start; none before the start
}

// HookDescription is a lifecycle hook.
type HookDescription struct {
	Name   string            `json:"name"`
	Module cell.FullModuleID `json:"module"`
	Place  string            `json:"place"`          // where it was appended
	State  string            `json:"state"`          // "waiting", "running", "ran", "stopping" or "stopped"
	Start  time.Duration     `json:"start"`          // how long its start took, in nanoseconds
	Stop   time.Duration     `json:"stop,omitempty"` // the same of its stop
	Error  string            `json:"error,omitempty"`
}

// Inspector tells of the hive that it is injected into. It is safe for concurrent use once the hive has been constructed.
type Inspector interface {
	Describe() Description
	// Hooks are those of Describe.
	Hooks() []HookDescription
	// Settings is the configuration in effect, by name.
	Settings() []cell.Setting
}

// Describe says what the hive consists of. It constructs and starts nothing.
func (h *Hive) Describe() Description {
	return Description{Name: h.options.Name, Cells: h.graph.Describe(), Hooks: h.hooks()}
}

func (h *Hive) hooks() []HookDescription {
	reports := h.lifecycle.Reports()
	hooks := make([]HookDescription, 0, len(reports))
	for _, r := range reports {
		hooks = append(hooks, HookDescription{
			Name: r.Name, Module: r.Module, Place: r.Place, State: stateOf(r),
			Start: r.Start.Took, Stop: r.Stop.Took, Error: cmp.Or(r.Start.Error, r.Stop.Error),
		})
	}
	return hooks
}

func stateOf(r lifecycle.Report) string {
	switch r.Stop.State {
	case lifecycle.Running:
		return "stopping"
	case lifecycle.Ran:
		return "stopped"
	}
	return cmp.Or(string(r.Start.State), "waiting")
}

type inspector struct{ *Hive }

func (i inspector) Settings() []cell.Setting { return i.graph.Settings() }

func (i inspector) Hooks() []HookDescription { return i.hooks() }
