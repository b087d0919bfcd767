package job

import (
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/statedb"
)

// TableName is the name of the table of jobs.
const TableName = "jobs"

// State is the state of a job.
type State string

// The states.
const (
	Waiting State = "waiting" // for the start of the hive
	Running State = "running"
	Idle    State = "idle"   // between two runs
	Ended   State = "ended"  // by itself or stopped
	Failed  State = "failed" // for good
)

// Status is a row of the table "jobs". Changes are written at once while they are rare, and within a second otherwise.
type Status struct {
	ID       string            `json:"id"` // module and name, dotted; also the id of its health; the primary key
	Module   cell.FullModuleID `json:"module"`
	Name     string            `json:"name"` // prefixed with its scopes, dotted; names quoted as in health ids
	Kind     string            `json:"kind"` // "one-shot", "timer" or "observer"
	State    State             `json:"state"`
	Runs     uint64            `json:"runs"`               // that have ended; of an observer, batches or events
	Failures uint64            `json:"failures"`           // runs that ended in an error
	Started  time.Time         `json:"started,omitzero"`   // the last run
	Duration time.Duration     `json:"duration,omitempty"` // the last run that has ended
	Error    string            `json:"error,omitempty"`    // of the last run that has ended
	Next     time.Time         `json:"nextRun,omitzero"`   // zero if not scheduled
	Canceled bool              `json:"canceled,omitempty"` // it ended because it was stopped
}

// ByID is the primary index of the table.
func ByID() statedb.Index[Status, string] {
	return statedb.NewIndex("id", func(s Status) string { return s.ID })
}

// ByModule is the index by the full id of the module.
func ByModule() statedb.Index[Status, string] {
	return statedb.NewIndex("module", func(s Status) string { return string(s.Module) })
}
