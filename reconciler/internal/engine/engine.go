package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/internal/loglimit"
	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Engine drives a target to what the rows of a table say. Make it with
// [New] and call Run, once. The other methods are safe for concurrent use, at
// any time.
type Engine struct {
	p          Params
	log        *loglimit.Handler     // of p.Logger
	random     func() float64        // in [0,1)
	onMove     func(from, to string) // a row has come to another stage; nil but in tests
	limits     atomic.Pointer[Limits]
	inbox      *inbox
	fullWanted chan struct{}      // holds one token while a full pass is asked for
	depends    *hold.Dependencies // Params.DependsOn
	member     *hold.Member       // of Params.Group, or nil
	pauses     *hold.Pauses
	listings   hold.Listings // of what is observed
	lifetime
	sourceWait
	published
}

// lifetime is how far Run has come.
type lifetime struct {
	started atomic.Bool
	unready atomic.Pointer[Wait] // what Init failed with, until it succeeds
	opened  chan struct{}        // closed when the inbox is open
	ended   chan struct{}        // closed when Run returns
}

// sourceWait is how long sources are waited for.
type sourceWait struct {
	since  sourcesSince             // with sources
	late   atomic.Pointer[[]string] // sources that are not waited for
	listed atomic.Uint64            // revision of the table when its sources had delivered, or 0
}

// published is what the deciding goroutine shows others.
type published struct {
	stats       latestStats
	failures    *failures // what FailureGroups says
	drifted     keySet    // the rows that differ from what is observed
	deleting    atomic.Int64
	lastSuccess atomic.Int64 // Unix nanoseconds, or 0
}

// ErrStarted is returned by the second call of Run.
var ErrStarted = errors.New("reconciler was started already")

// New returns an engine, or an error that says which parameter is wrong.
func New(p Params) (*Engine, error) {
	p, err := p.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", p.Name, err)
	}
	log := loglimit.New(p.Logger.Handler())
	p.Logger = slog.New(log)
	r := &Engine{
		p: p, log: log, random: rand.Float64, inbox: newInbox(), pauses: hold.NewPauses(p.Table),
		lifetime: lifetime{opened: make(chan struct{}), ended: make(chan struct{})}, fullWanted: make(chan struct{}, 1),
		published: published{failures: newFailures()},
	}
	r.limits.Store(&p.Config.Limits)
	r.late.Store(new([]string))
	r.depends = hold.NewDependencies(p.DB, p.DependsOn, r.releaseDependents)
	if r.member, err = hold.Join(p.Group, p.Table, p.DependsOn, r.releaseDeletes); err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", p.Name, err)
	}
	if p.Target.Observe == nil && !p.Config.DeleteLimit.Off {
		p.Logger.Warn("target cannot observe: the limit of deletes does not cover what it prunes", "reconciler", p.Name)
	}
	return r, nil
}

// status returns the status of a row.
func (r *Engine) status(e *store.Entry) Status { return r.p.Target.Status(e) }

// find returns the row with an encoded primary key, or nil.
func (r *Engine) find(txn store.ReadTxn, key string) *store.Entry {
	return r.p.Table.FindKey(txn, []byte(key))
}

// all yields all rows.
func (r *Engine) all(txn store.ReadTxn) iter.Seq[*store.Entry] {
	return r.p.Table.All(txn, nil).Entries()
}

// keyOf returns the encoded primary key of a row.
func keyOf(e *store.Entry) string { return string(e.Key()) }

// Name returns the name from the params.
func (r *Engine) Name() string { return r.p.Name }

// FullPass asks for a full pass as soon as possible: all rows are applied again
// and the surplus is removed. Asking again before it has begun changes nothing.
func (r *Engine) FullPass() {
	select {
	case r.fullWanted <- struct{}{}:
	default:
	}
}

// Run reconciles until ctx ends. Operations that are running then may go on for
// Config.StopTimeout; their outcomes are still written. Then their contexts end,
// and those that go on nevertheless are left behind and named by the error, which
// is nil otherwise. ErrStarted when Run was called before. When the table is
// dropped Run ends with an error that matches [store.ErrDropped], and nothing is
// removed because of that.
func (r *Engine) Run(ctx context.Context) (err error) {
	if r.started.Swap(true) {
		return ErrStarted
	}
	defer close(r.ended)
	defer r.log.Close()
	defer func() { r.p.Health.Stopped(stoppedMessage(err)) }()
	defer r.member.Leave()
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
	related := r.startRelated(ctx)
	err = l.run(ctx)
	return errors.Join(err, related.stop(l.stopBy))
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
	Paused      int       `json:"paused"`   // have something to be done that a pause holds, deletes included
	Drifted     int       `json:"drifted"`  // known to differ from what is observed: not done
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	// WaitingFor names the sources that have not delivered their first listing:
	// no operation runs before they have.
	WaitingFor []string `json:"waitingFor,omitempty"`
	// Incomplete says, by source, why nothing surplus is removed at the moment.
	Incomplete map[string]string `json:"incomplete,omitempty"`
}

// Summary counts the rows of a snapshot by status. It reads the whole table.
func (r *Engine) Summary(txn store.ReadTxn) Summary {
	s := Summary{Name: r.p.Name, Table: r.p.Table.Name(), Deleting: int(r.deleting.Load())}
	for e := range r.all(txn) {
		s.Rows++
		switch r.status(e).Kind() {
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
	last := r.stats.get()
	s.Paused, s.Drifted = last.held[workqueue.Paused], r.drifted.len()
	all := r.sources(txn)
	s.WaitingFor, s.Incomplete = all.waitingFor, all.incomplete
	return s
}
