package job

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/statedb"
)

const (
	// period is the maximum delay before a changed row is written.
	period = time.Second
	// maxAtOnce is the number of rows written immediately in a period. The others are written in a batch at its end.
	maxAtOnce = 100
)

// Registry owns the table of jobs. It is safe for concurrent use. A hive has one.
type Registry struct {
	db     *statedb.DB
	table  *statedb.RWTable[Status]
	logger *slog.Logger

	stopping atomic.Bool // the stop of the hive has begun

	mu      sync.Mutex
	open    map[string]*record // by id
	queue   []*record          // to be written at the end of the period
	written int                // in this period
	ticking bool               // a period has begun and not ended
}

// NewRegistry creates the table in db. Failures to write rows are logged.
func NewRegistry(db *statedb.DB, logger *slog.Logger) (*Registry, error) {
	table, err := statedb.NewTable(db, statedb.Schema[Status]{
		Name: TableName, Primary: ByID(), Secondary: []statedb.Indexer[Status]{ByModule()},
	})
	if err != nil {
		return nil, err
	}
	return &Registry{db: db, table: table, logger: logger, open: make(map[string]*record)}, nil
}

// Table returns the table of jobs.
func (r *Registry) Table() *statedb.Table[Status] { return statedb.ReadOnly(r.table) }

// claim makes the record the owner of the row with its id.
func (r *Registry) claim(c *record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[c.id] != nil {
		return fmt.Errorf("%w: job %q", health.ErrDuplicate, c.id)
	}
	r.open[c.id] = c
	return nil
}

// abandon ends the record's ownership of its row.
func (r *Registry) abandon(c *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[c.id] == c {
		delete(r.open, c.id)
	}
}

// owned reports whether a record owns the row with an id.
func (r *Registry) owned(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[id] != nil
}

// changed writes the row of a record that has changed, now or at the end of the period.
func (r *Registry) changed(c *record, soon bool) {
	if r.enqueue(c, soon) {
		r.write(context.Background(), []*record{c})
	}
}

// enqueue reports whether the row is to be written now.
func (r *Registry) enqueue(c *record, soon bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ticking {
		r.ticking = true
		time.AfterFunc(period, r.tick)
	}
	if soon && r.written < maxAtOnce {
		r.written++
		return true
	}
	if !c.queued.Swap(true) {
		r.queue = append(r.queue, c)
	}
	return false
}

// tick ends a period.
func (r *Registry) tick() {
	r.mu.Lock()
	r.ticking, r.written = false, 0
	r.mu.Unlock()
	r.flush(context.Background())
}

// flush writes all rows that are to be written.
func (r *Registry) flush(ctx context.Context) {
	r.mu.Lock()
	batch := r.queue
	r.queue = nil
	r.mu.Unlock()
	if len(batch) > 0 {
		r.write(ctx, batch)
	}
}

// write writes rows in one transaction, and then their jobs' pending health reports.
func (r *Registry) write(ctx context.Context, batch []*record) {
	for _, c := range batch {
		c.queued.Store(false)
	}
	err := r.db.Update(ctx, func(txn *statedb.WriteTxn) error {
		for _, c := range batch {
			if err := c.write(txn); err != nil {
				return err
			}
		}
		return nil
	}, r.table)
	if err != nil {
		r.logger.Error("Cannot write the status of jobs", "jobs", len(batch), "first", batch[0].id, "error", err)
	}
	for _, c := range batch {
		c.health.flush()
	}
}
