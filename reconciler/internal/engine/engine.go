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

// Engine drives a target to the state that the rows of a table describe. Make it with [New]
// and call Run once. The other methods are safe for concurrent use at any time.
type Engine struct {
	p          Params
	log        *loglimit.Handler     // of p.Logger
	random     func() float64        // in [0,1)
	onMove     func(from, to string) // called when a row changes its stage; nil except in tests
	limits     atomic.Pointer[Limits]
	inbox      *inbox
	fullWanted chan struct{}      // holds a token while a full pass is requested
	depends    *hold.Dependencies // Params.DependsOn
	member     *hold.Member       // of Params.Group, or nil
	pauses     *hold.Pauses
	listings   hold.Listings // of the observed table
	lifetime
	sourceWait
	published
}

// lifetime is the progress of Run.
type lifetime struct {
	started atomic.Bool
	unready atomic.Pointer[Wait] // the failure of Init, until it succeeds
	opened  chan struct{}        // closed when the inbox is open
	ended   chan struct{}        // closed when Run returns
}

// sourceWait is the state of waiting for sources.
type sourceWait struct {
	since  sourcesSince             // with sources
	late   atomic.Pointer[[]string] // sources that took too long
	listed atomic.Uint64            // revision of the table when waiting for its sources ended, or 0
}

// published is the state that the loop shares with other goroutines.
type published struct {
	stats       latestStats
	failures    *failures // for FailureGroups
	drifted     keySet    // the rows known to differ from the observed state
	deleting    atomic.Int64
	lastSuccess atomic.Int64 // Unix nanoseconds, or 0
}

// ErrStarted is returned by the second call of Run.
var ErrStarted = errors.New("reconciler was already started")

// New returns an engine, or an error that names the invalid parameter.
func New(p Params) (*Engine, error) {
	p, err := p.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", p.Name, err)
	}
	log := loglimit.New(p.Logger.Handler(), loglimit.Options{})
	p.Logger = slog.New(log)
	r := &Engine{
		p: p, log: log, random: rand.Float64, inbox: newInbox(), pauses: hold.NewPauses(p.Table),
		lifetime: lifetime{opened: make(chan struct{}), ended: make(chan struct{})}, fullWanted: make(chan struct{}, 1),
		published: published{failures: newFailures()},
	}
	r.limits.Store(&p.Config.Limits)
	r.late.Store(new([]string))
	r.depends = hold.NewDependencies(r.owner(), p.DependsOn, r.releaseDependents)
	if r.member, err = hold.Join(p.Group, p.Table, p.deletedBefore(), r.releaseDeletes); err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", p.Name, err)
	}
	if p.Memory != nil && p.Memory.DeletesHeld() != nil {
		r.member.SetUnsearched(true)
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

// Name returns the name of the reconciler.
func (r *Engine) Name() string { return r.p.Name }

// FullPass requests a full pass as soon as possible: all rows are applied again and orphans are
// removed. Further requests before it begins have no effect.
func (r *Engine) FullPass() {
	select {
	case r.fullWanted <- struct{}{}:
	default:
	}
}

// Run reconciles until ctx ends. Operations running at that time may go on for
// Config.StopTimeout, and their outcomes are still written. Then their contexts end; operations
// that still do not return are abandoned and named by the error, which is nil otherwise. Run
// returns [ErrStarted] if it was called before. If the table is dropped, Run returns an error
// that matches [store.ErrDropped], and nothing is removed from the target.
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

// Summary is an overview of a reconciler.
type Summary struct {
	Name        string    `json:"name"`
	Table       string    `json:"table"`
	Rows        int       `json:"rows"`
	Done        int       `json:"done"`
	Pending     int       `json:"pending"`
	Error       int       `json:"error"`
	Deleting    int       `json:"deleting"` // gone from the table but not yet from the target
	Paused      int       `json:"paused"`   // pending but held by a pause, including deletes
	Drifted     int       `json:"drifted"`  // known to differ from the observed state, and so not done
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	// WaitingFor names the sources whose first listing is missing. No operation runs before
	// they have delivered.
	WaitingFor []string `json:"waitingFor,omitempty"`
	// Incomplete has, by source, the reasons why no orphans are removed at the moment.
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
