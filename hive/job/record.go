package job

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/statedb"
)

// record is the row of one job.
type record struct {
	registry *Registry
	id       string
	health   *jobHealth
	rare     bool        // runs are written only at the end of a period
	queued   atomic.Bool // in the queue of the registry

	mu      sync.Mutex
	row     Status
	dirty   bool // the row has changed since it was written
	written bool // the row is in the table
	gone    bool // the row is to be deleted
}

// newRecord returns the record of a job, which has no row before the first change.
func newRecord(r *runner) (*record, error) {
	p := r.group.params
	c := &record{registry: p.Registry, health: r.health, id: r.id}
	c.row = Status{ID: c.id, Module: p.ID, Name: r.name, Kind: r.job.kind(), State: Waiting}
	// An observer of this very table would wake itself.
	c.rare = c.row.Kind == kindObserver
	return c, p.Registry.claim(c)
}

// change changes the row and schedules its write.
func (c *record) change(fn func(*Status)) {
	c.mu.Lock()
	fn(&c.row)
	c.dirty = true
	ending := c.row.State == Ended || c.row.State == Failed
	soon := ending || !c.rare || c.row.Runs == 0
	c.mu.Unlock()
	if ending || !c.queued.Load() { // otherwise whoever takes it from the queue sees the change
		c.registry.changed(c, soon)
	}
}

// write writes or deletes the row.
func (c *record) write(txn *statedb.WriteTxn) error {
	owned := c.registry.owned(c.id)
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	switch {
	case c.gone && c.written && !owned: // another job of this id writes its own
		_, _, err = c.registry.table.Delete(txn, c.row)
		c.written = false
	case !c.gone && c.dirty:
		_, _, err = c.registry.table.Insert(txn, c.row)
		c.written, c.dirty = true, false
	}
	return err
}

// wait records that the job waits for the start.
func (c *record) wait() { c.change(func(*Status) {}) }

// begin records the beginning of a run.
func (c *record) begin() {
	c.change(func(s *Status) { s.State, s.Started, s.Next = Running, time.Now(), time.Time{} })
}

// end records the end of a run.
func (c *record) end(err error) {
	c.change(func(s *Status) {
		s.State, s.Duration, s.Error = Idle, time.Since(s.Started), ""
		s.Runs++
		if err != nil {
			s.Failures++
			s.Error = fmt.Sprint(err)
		}
	})
}

// due records that the next run is due d after the end of the last one, or d from now if there was none.
func (c *record) due(d time.Duration) {
	c.change(func(s *Status) {
		last := s.Started.Add(s.Duration)
		if s.Runs == 0 {
			last = time.Now()
		}
		s.State, s.Next = Idle, last.Add(d)
	})
}

// close records the end of the job.
func (c *record) close(canceled bool, err error) {
	c.change(func(s *Status) {
		s.State, s.Next, s.Canceled = Ended, time.Time{}, canceled
		if err != nil {
			s.State, s.Error = Failed, fmt.Sprint(err)
		}
	})
}

// remove deletes the row, at the end of the period.
func (c *record) remove() {
	c.mu.Lock()
	c.gone = true
	written := c.written
	c.mu.Unlock()
	c.registry.abandon(c)
	if written {
		c.registry.changed(c, false)
	}
}
