package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/internal/loglimit"
	"github.com/statehive/statehive/statedb"
)

// Reconciler drives a target to what the rows of a table say. Make it with
// [New] and call Run, once. The other methods are safe for concurrent use, at
// any time.
type Reconciler[Obj any] struct {
	p        Params[Obj]
	log      *loglimit.Handler // of p.Logger
	status   StatusField[Obj]
	observer Observer[Obj]    // nil when the target cannot observe
	batcher  BatchTarget[Obj] // nil when it takes rows one by one only
	random   random
	onMove   func(from, to string) // a row has come to another stage; nil but in tests
	limits   atomic.Pointer[Limits]
	inbox    *inbox[Obj]
	started  atomic.Bool
	unready  atomic.Pointer[Wait] // what Init failed with, until it succeeds
	opened   chan struct{}        // closed when the inbox is open
	ended    chan struct{}        // closed when Run returns
	waits    []dependencyWaits    // for each of Params.DependsOn
	member   *member              // of Params.Group, or nil
	drifted  keySet               // the rows that differ from what is observed
	pauses   atomic.Pointer[[]pause[Obj]]

	board      board[Obj]    // what Stats says
	fullWanted chan struct{} // holds one token while a full pass is asked for

	patience patience                 // with sources
	late     atomic.Pointer[[]string] // sources that are not waited for

	listed      atomic.Uint64 // revision of the table when its sources had delivered, or 0
	deleting    atomic.Int64
	lastSuccess atomic.Int64 // Unix nanoseconds, or 0
}

// ErrStarted is returned by the second call of Run.
var ErrStarted = errors.New("reconciler was started already")

// New returns a reconciler of rows that have one status, or an error that says
// which parameter is wrong.
func New[Obj Reconcilable[Obj]](p Params[Obj]) (*Reconciler[Obj], error) {
	return NewWithStatus(p, StatusField[Obj]{Get: Obj.GetStatus, Set: Obj.WithStatus})
}

// NewWithStatus returns a reconciler of rows that keep its status in a field, so
// that several can share a table. See [StatusSet].
func NewWithStatus[Obj any](p Params[Obj], field StatusField[Obj]) (*Reconciler[Obj], error) {
	p, err := p.withDefaults()
	if err == nil && (field.Get == nil || field.Set == nil) {
		err = errors.New("the status field needs Get and Set")
	}
	if err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", p.Name, err)
	}
	log := loglimit.New(p.Logger.Handler())
	p.Logger = slog.New(log)
	r := &Reconciler[Obj]{
		p: p, log: log, status: field, random: rand.Float64, inbox: newInbox[Obj](),
		opened: make(chan struct{}), ended: make(chan struct{}), fullWanted: make(chan struct{}, 1),
	}
	r.observer, _ = p.Target.(Observer[Obj])
	r.batcher, _ = p.Target.(BatchTarget[Obj])
	r.limits.Store(&p.Config.Limits)
	r.late.Store(new([]string))
	r.pauses.Store(new([]pause[Obj]))
	if err := r.join(); err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", p.Name, err)
	}
	if r.observer == nil && !p.Config.DeleteLimit.Off {
		p.Logger.Warn("target cannot observe: the limit of deletes does not cover what it prunes", "reconciler", p.Name)
	}
	return r, nil
}

// Name returns the name from the params.
func (r *Reconciler[Obj]) Name() string { return r.p.Name }

// FullPass asks for a full pass as soon as possible: all rows are applied again
// and the surplus is removed. Asking again before it has begun changes nothing.
func (r *Reconciler[Obj]) FullPass() {
	select {
	case r.fullWanted <- struct{}{}:
	default:
	}
}

// Run reconciles until ctx ends. Operations that are running then may go on for
// Config.StopTimeout; their outcomes are still written. Then their contexts end,
// and those that go on nevertheless are left behind and named by the error, which
// is nil otherwise. ErrStarted when Run was called before. When the table is
// dropped Run ends with an error that matches [statedb.ErrDropped], and nothing is
// removed because of that.
func (r *Reconciler[Obj]) Run(ctx context.Context) (err error) {
	if r.started.Swap(true) {
		return ErrStarted
	}
	defer close(r.ended)
	defer r.log.Close()
	defer func() { r.p.Health.Stopped(stoppedMessage(err)) }()
	defer r.member.leave()
	if ready, err := r.waitForSources(ctx); !ready {
		return err
	}
	r.listed.Store(uint64(r.p.Table.Revision(r.p.DB.ReadTxn())))
	if ready, err := r.initTarget(ctx); !ready {
		return err
	}
	l := r.newLoop(ctx)
	defer l.close()
	r.inbox.setOpen(true) // until it finishes
	close(r.opened)
	defer r.startRelated(ctx)()
	return l.run(ctx)
}

func stoppedMessage(err error) string {
	if err != nil {
		return err.Error()
	}
	return "stopped"
}

// Summary is how a reconciler stands.
type Summary struct {
	Name        string    `json:"name"`
	Table       string    `json:"table"`
	Rows        int       `json:"rows"`
	Done        int       `json:"done"`
	Pending     int       `json:"pending"`
	Error       int       `json:"error"`
	Deleting    int       `json:"deleting"` // gone from the table, not yet from the target
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	// WaitingFor names the sources that have not delivered their first listing:
	// no operation runs before they have.
	WaitingFor []string `json:"waitingFor,omitempty"`
	// Incomplete says, by source, why nothing surplus is removed at the moment.
	Incomplete map[string]string `json:"incomplete,omitempty"`
}

// Summary counts the rows of a snapshot by status. It reads the whole table.
func (r *Reconciler[Obj]) Summary(txn statedb.ReadTxn) Summary {
	s := Summary{Name: r.p.Name, Table: r.p.Table.Name(), Deleting: int(r.deleting.Load())}
	for obj := range r.p.Table.All(txn) {
		s.Rows++
		switch r.status.Get(obj).Kind() {
		case Done:
			s.Done++
		case Error:
			s.Error++
		case Pending:
			s.Pending++
		}
	}
	if at := r.lastSuccess.Load(); at != 0 {
		s.LastSuccess = time.Unix(0, at)
	}
	all := r.sources(txn)
	s.WaitingFor, s.Incomplete = all.waitingFor, all.incomplete
	return s
}
