package job

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/statedb"
)

// TableName is the name of the table of jobs.
const TableName = "jobs"

// observerPause is the least time between two rows of an observer.
const observerPause = time.Second

// State is how far a job is.
type State string

// The states.
const (
	Waiting State = "waiting" // for the start of the hive
	Running State = "running"
	Idle    State = "idle"   // between two runs
	Ended   State = "ended"  // by itself or stopped
	Failed  State = "failed" // for good
)

// Status is a row of the table "jobs". That of an observer is at most a second old while it runs.
type Status struct {
	ID       string            `json:"id"` // module and name, dotted: the primary key
	Module   cell.FullModuleID `json:"module"`
	Name     string            `json:"name"`
	Kind     string            `json:"kind"` // "one-shot", "timer" or "observer"
	State    State             `json:"state"`
	Runs     uint64            `json:"runs"`               // that have ended; of an observer, batches or events
	Failures uint64            `json:"failures"`           // runs that ended in an error
	Began    time.Time         `json:"began,omitzero"`     // the last run
	Took     time.Duration     `json:"took,omitempty"`     // the last run that has ended
	Error    string            `json:"error,omitempty"`    // of the last run that has ended
	Next     time.Time         `json:"nextRun,omitzero"`   // when it is due, if it is due at a time
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

// Registry owns the table of jobs. It is safe for concurrent use. A hive has one.
type Registry struct {
	db     *statedb.DB
	table  *statedb.RWTable[Status]
	logger *slog.Logger
}

// NewRegistry makes the table in db. Rows that cannot be written are logged.
func NewRegistry(db *statedb.DB, logger *slog.Logger) (*Registry, error) {
	table, err := statedb.NewTable(db, statedb.Schema[Status]{
		Name: TableName, Primary: ByID(), Secondary: []statedb.Indexer[Status]{ByModule()},
	})
	if err != nil {
		return nil, err
	}
	return &Registry{db: db, table: table, logger: logger}, nil
}

// Table returns the table of jobs.
func (r *Registry) Table() *statedb.Table[Status] { return statedb.ReadOnly(r.table) }

func (r *Registry) write(s Status, fn func(*statedb.WriteTxn, Status) (Status, bool, error)) {
	err := r.db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		_, _, err := fn(txn, s)
		return err
	}, r.table)
	if err != nil {
		r.logger.Error("Cannot write the status of a job", "job", s.ID, "error", err)
	}
}

// record is the row of one job.
type record struct {
	registry *Registry
	pause    time.Duration // between two rows; zero: none

	mu     sync.Mutex // held while writing, so that rows are written in order
	row    Status
	flush  *time.Timer // a row that is to be written
	closed bool
}

func newRecord(r *Registry, module cell.FullModuleID, j Job) *record {
	c := &record{registry: r, row: Status{
		ID: string(module) + "." + j.jobName(), Module: module, Name: j.jobName(), Kind: j.kind(), State: Waiting,
	}}
	if c.row.Kind == kindObserver {
		c.pause = observerPause
	}
	c.change(func(*Status) {})
	return c
}

// change changes the row and writes it, now or after the pause.
func (c *record) change(fn func(*Status)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn(&c.row)
	switch {
	case c.closed || c.flush != nil:
	case c.pause > 0 && c.row.Runs > 0:
		c.flush = time.AfterFunc(c.pause, c.flushNow)
	default:
		c.writeLocked()
	}
}

func (c *record) flushNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush = nil
	if !c.closed {
		c.writeLocked()
	}
}

func (c *record) writeLocked() { c.registry.write(c.row, c.registry.table.Insert) }

// begin notes the begin of a run.
func (c *record) begin() {
	c.change(func(s *Status) { s.State, s.Began, s.Next = Running, time.Now(), time.Time{} })
}

// end notes the end of a run; next is zero if no run is due at a time.
func (c *record) end(err error) {
	c.change(func(s *Status) {
		s.State, s.Took, s.Error = Idle, time.Since(s.Began), ""
		s.Runs++
		if err != nil {
			s.Failures++
			s.Error = err.Error()
		}
	})
}

// due notes when the next run is due.
func (c *record) due(next time.Time) {
	c.change(func(s *Status) { s.State, s.Next = Idle, next })
}

// close writes the last row: the job has ended.
func (c *record) close(canceled bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	if c.flush != nil {
		c.flush.Stop()
	}
	c.row.State, c.row.Next, c.row.Canceled = Ended, time.Time{}, canceled
	if err != nil {
		c.row.State, c.row.Error = Failed, err.Error()
	}
	c.writeLocked()
}

// remove deletes the row.
func (c *record) remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.flush != nil {
		c.flush.Stop()
	}
	c.registry.write(c.row, c.registry.table.Delete)
}
