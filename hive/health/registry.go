package health

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/statehive/statehive/statedb"
)

// Registry owns the table of statuses. It is safe for concurrent use. A hive has one.
type Registry struct {
	db     *statedb.DB
	table  *statedb.RWTable[Status]
	logger *slog.Logger
	others map[string]bool // ids of outermost scopes, which no other scope may have

	mu   sync.Mutex
	open map[string]*scope
}

// NewRegistry creates the table in db. Failures to write statuses are logged. The ids in outermost are reserved for outermost scopes:
// a nested scope that would have the same id has its name quoted instead.
func NewRegistry(db *statedb.DB, logger *slog.Logger, outermost ...string) (*Registry, error) {
	table, err := statedb.NewTable(db, statedb.Schema[Status]{Name: TableName, Primary: ByID()})
	if err != nil {
		return nil, err
	}
	r := &Registry{db: db, table: table, logger: logger, others: make(map[string]bool), open: make(map[string]*scope)}
	for _, id := range outermost {
		r.others[id] = true
	}
	return r, nil
}

// Table returns the table of statuses.
func (r *Registry) Table() *statedb.Table[Status] { return statedb.ReadOnly(r.table) }

// Scope opens an outermost scope. It fails with ErrDuplicate if one of the same id is open.
func (r *Registry) Scope(id string) (Health, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.scopeLocked(id)
}

func (r *Registry) scopeLocked(id string) (*scope, error) {
	if r.open[id] != nil {
		return nil, fmt.Errorf("%w: %q", ErrDuplicate, id)
	}
	s := &scope{registry: r, id: id}
	r.open[id] = s
	return s, nil
}

// nested opens a scope nested in s.
func (r *Registry) nested(s *scope, name string) (*scope, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case name == "":
		return nil, fmt.Errorf("health: a scope below %q needs a name", s.id)
	case r.open[s.id] != s:
		return nil, fmt.Errorf("%w: %q", ErrClosed, s.id)
	}
	id := ID(s.id, name)
	if r.others[id] {
		id = s.id + "." + strconv.Quote(name)
	}
	n, err := r.scopeLocked(id)
	if err != nil {
		return nil, err
	}
	n.parent = s
	if s.below == nil {
		s.below = make(map[*scope]struct{})
	}
	s.below[n] = struct{}{}
	return n, nil
}

// close closes s and the scopes nested in it.
func (r *Registry) close(s *scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[s.id] != s {
		return
	}
	if s.parent != nil {
		delete(s.parent.below, s)
	}
	rows := r.forgetLocked(s, make([]Status, 0, 1+len(s.below)))
	if len(rows) == 0 {
		return
	}
	r.write(func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := r.table.Delete(txn, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgetLocked frees the names of a scope and those nested in it, and appends their rows to rows.
func (r *Registry) forgetLocked(s *scope, rows []Status) []Status {
	delete(r.open, s.id)
	if last := s.end(); last.ID != "" {
		rows = append(rows, last)
	}
	for n := range s.below {
		rows = r.forgetLocked(n, rows)
	}
	return rows
}

func (r *Registry) write(fn func(txn *statedb.WriteTxn) error) {
	if err := r.db.Update(context.Background(), fn, r.table); err != nil {
		r.logger.Error("Cannot write health", "error", err)
	}
}

// scope is one row.
type scope struct {
	registry *Registry
	id       string
	parent   *scope              // nil for an outermost scope
	below    map[*scope]struct{} // guarded by the registry's mu

	mu     sync.Mutex // held while writing, so that rows are written in order
	last   Status
	closed bool
}

// ID returns the id of the scope's row.
func (s *scope) ID() string { return s.id }

func (s *scope) OK(message string) { s.report(OK, message, nil) }

func (s *scope) Degraded(message string, err error) { s.report(Degraded, message, err) }

func (s *scope) Stopped(message string) { s.report(Stopped, message, nil) }

func (s *scope) NewScope(name string) (Health, error) {
	n, err := s.registry.nested(s, name)
	if err != nil {
		return nil, err
	}
	return n, nil
}

func (s *scope) Close() { s.registry.close(s) }

func (s *scope) report(level Level, message string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.last
	next.ID, next.Level, next.Message, next.Error = s.id, level, message, ""
	if err != nil {
		next.Error = fmt.Sprint(err) // err may not have a usable method Error, such as a nil pointer
	}
	if s.closed || next == s.last {
		return
	}
	next.Updated = time.Now()
	if s.last.Level != level {
		next.Since = next.Updated
		if s.last.ID != "" {
			next.Recent = changed(s.last.Recent, s.last)
		}
	}
	s.last = next
	s.registry.write(func(txn *statedb.WriteTxn) error {
		_, _, err := s.registry.table.Insert(txn, next)
		return err
	})
}

// end makes the scope ignore further reports and returns its row, whose ID is empty if there is none.
func (s *scope) end() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.last
}
