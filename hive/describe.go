package hive

import (
	"cmp"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/lifecycle"
)

// Description describes the modules of a hive and the runs of its hooks.
type Description struct {
	Name  string           `json:"name"`
	Cells cell.Description `json:"cells"`
	// Hooks are in start order, with those of sub-lifecycles last. There are none before the start.
	Hooks []HookDescription `json:"hooks"`
}

// HookDescription is a lifecycle hook.
type HookDescription struct {
	Name     string            `json:"name"`
	Module   cell.FullModuleID `json:"module"`
	Part     string            `json:"part,omitempty"` // the sub-lifecycle, in its latest start; empty for hooks of the module itself
	Location string            `json:"location"`       // where it was appended
	State    string            `json:"state"`          // "waiting", "running", "ran", "stopping" or "stopped"
	Start    time.Duration     `json:"start"`          // duration of the start, in nanoseconds
	Stop     time.Duration     `json:"stop,omitempty"` // duration of the stop, in nanoseconds
	Error    string            `json:"error,omitempty"`
}

// Inspector describes the hive into which it is injected. It is safe for concurrent use once the hive has been constructed.
type Inspector interface {
	Describe() Description
	// Hooks returns the hooks of Describe.
	Hooks() []HookDescription
	// Settings returns the configuration in effect, sorted by name.
	Settings() []cell.Setting
}

// Describe describes the hive. It constructs and starts nothing.
func (h *Hive) Describe() Description {
	return Description{Name: h.options.Name, Cells: h.graph.Describe(), Hooks: h.hooks()}
}

func (h *Hive) hooks() []HookDescription {
	hooks := describeHooks([]HookDescription{}, h.lifecycle.Reports(), "")
	for _, part := range h.parts.list() {
		if reports := part.reports(); reports != nil {
			hooks = describeHooks(hooks, reports, part.name)
		}
	}
	return hooks
}

func describeHooks(to []HookDescription, reports []lifecycle.Report, part string) []HookDescription {
	for _, r := range reports {
		to = append(to, HookDescription{
			Name: r.Name, Module: r.Module, Part: part, Location: r.Location, State: stateOf(r),
			Start: r.Start.Duration, Stop: r.Stop.Duration, Error: cmp.Or(r.Start.Error, r.Stop.Error),
		})
	}
	return to
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
