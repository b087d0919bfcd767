package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
)

// NotTried yields the rows of a snapshot that were in the table when its sources had delivered
// their first listings, and that have not been tried since, or have failed fewer than tries times
// and will be retried: the key as text, and a description of the state. It leaves out rows that
// were deleted or changed since, and rows that will not be tried soon because they are paused,
// stuck, have failed for good, or wait for another row, whose reconciler reports that one. Before
// the first listings it yields nothing. It reads the table lazily. The number of failures comes
// from the not-done table, which is written at most once a second for a row, so a row may be
// yielded that much longer. Without that table one failure is enough.
func (r *Engine) NotTried(txn store.ReadTxn, tries int) iter.Seq2[string, string] {
	return func(yield func(key, state string) bool) {
		listed, depends := store.Revision(r.listed.Load()), r.depends.NewChecker()
		for e := range r.all(txn) {
			status := r.status(e)
			if status.Kind() == Done || e.Spec() > listed {
				continue
			}
			state := r.notTried(txn, e, status, tries, depends)
			if state != "" && !yield(r.p.Table.KeyText(e), state) {
				return
			}
		}
	}
}

// notTried describes a row that is not done and was not tried often enough; for other rows it
// returns "".
func (r *Engine) notTried(txn store.ReadTxn, e *store.Entry, status Status, tries int, depends *hold.Checker) string {
	switch {
	case r.notTriedSoon(txn, e, status, depends):
		return ""
	case status.Kind() == Pending:
		return "it has not been tried yet"
	case r.p.NotDone == nil:
		return ""
	}
	row, _ := r.notDoneRow(txn, r.p.Table.KeyText(e))
	failed := max(1, row.Attempts) // the status has an error that the table may not have yet
	if failed >= tries || row.terminal() {
		return ""
	}
	next := ""
	if !row.NextDue.IsZero() {
		next = ", the next is at " + row.NextDue.Format(timeFormat)
	}
	return fmt.Sprintf("it failed %d of %d tries%s: %v", failed, tries, next, status.Err())
}

// notTriedSoon reports whether a row is paused, stuck or blocked. It does not use the not-done table,
// which lags behind.
func (r *Engine) notTriedSoon(txn store.ReadTxn, e *store.Entry, status Status, depends *hold.Checker) bool {
	until, paused := r.pauses.Paused(e)
	if paused && (until.IsZero() || time.Now().Before(until)) {
		return true
	}
	var stuck *StuckError
	return errors.As(status.Err(), &stuck) || depends.Blocked(txn, e)
}

// sources is the state of the sources of a table.
type sources struct {
	waitingFor []string          // those without a first listing
	incomplete map[string]string // why rows may be missing, by name
	dropped    bool              // the table was dropped, which does not mean that its rows are not desired
}

// sources returns the state of the sources in a snapshot. Those that took too long count as
// incomplete.
func (r *Engine) sources(txn store.ReadTxn) (all sources) {
	states := r.p.Table.Sources(txn)
	if len(states) == 0 {
		known, _ := r.p.Table.Initialized(txn)
		all.dropped = !known
	}
	for _, s := range states {
		late := !s.Initialized && slices.Contains(*r.late.Load(), s.Name)
		switch {
		case late:
			all.addIncomplete(s.Name, fmt.Sprintf("has delivered nothing within %v", r.p.Config.SourceTimeout))
		case !s.Initialized:
			all.waitingFor = append(all.waitingFor, s.Name)
		}
		if s.Incomplete != "" {
			all.addIncomplete(s.Name, s.Incomplete)
		}
	}
	return all
}

func (s *sources) addIncomplete(name, why string) {
	if s.incomplete == nil {
		s.incomplete = map[string]string{}
	}
	s.incomplete[name] = why
}

// removalHeld reports whether missing rows may still be desired.
func (s sources) removalHeld() bool { return !s.ready() || len(s.incomplete) > 0 }

// ready reports whether the table exists and no source has to be waited for.
func (s sources) ready() bool { return !s.dropped && len(s.waitingFor) == 0 }

// errDropped returns the error of Run after the table was dropped.
func (r *Engine) errDropped() error {
	return fmt.Errorf("reconciler %s stopped: %w", r.p.Name, &store.TableError{Table: r.p.Table.Name(), Err: store.ErrDropped})
}

// sourcesSince has the time since when each source has been waited for, by name. It belongs to the
// goroutine of Run.
type sourcesSince map[string]time.Time

// updateSources returns the current state of the sources, and gives up waiting for those that take
// too long. It has to be called again at until, if that is not zero.
func (r *Engine) updateSources(now time.Time) (all sources, until time.Time) {
	txn, limit := r.p.DB.ReadTxn(), r.p.Config.SourceTimeout
	if limit == 0 {
		return r.sources(txn), until
	}
	waited, late := sourcesSince{}, []string{}
	for _, s := range r.p.Table.Sources(txn) {
		if s.Initialized {
			continue
		}
		since, known := r.sourceWait.since[s.Name]
		if !known {
			since = now
		}
		waited[s.Name] = since
		if now.Sub(since) >= limit {
			late = append(late, s.Name)
		} else {
			until = earliest(until, since.Add(limit))
		}
	}
	r.sourceWait.since = waited
	r.giveUpSources(late)
	return r.sources(txn), until
}

// giveUpSources sets the sources that are no longer waited for.
func (r *Engine) giveUpSources(late []string) {
	before := *r.late.Load()
	if slices.Equal(before, late) {
		return
	}
	r.late.Store(&late)
	for _, name := range late {
		if !slices.Contains(before, name) {
			r.p.Logger.Warn("no longer waiting for a source: removal of orphans is held until it delivers",
				"reconciler", r.p.Name, "source", name, "after", r.p.Config.SourceTimeout)
		}
	}
}

// waitForSources waits until the table is initialized or its missing sources took too long. It
// reports false if ctx has ended or there is an error.
func (r *Engine) waitForSources(ctx context.Context) (ready bool, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for reported := ""; ; {
		changed, now := r.tableChanged(), time.Now()
		all, until := r.updateSources(now)
		switch {
		case all.dropped:
			return false, r.errDropped()
		case all.ready():
			return true, nil
		}
		if message := waitingMessage(all.waitingFor); message != reported {
			reported = message
			r.p.Health.Degraded(message, nil)
		}
		setTimer(timer, now, until)
		select {
		case <-ctx.Done():
			return false, nil
		case <-changed:
		case <-timer.C:
		}
	}
}

// tableChanged returns a channel that is closed by the next commit that changes the table or the
// state of its sources.
func (r *Engine) tableChanged() <-chan struct{} {
	return r.p.Table.Watch(r.p.DB.ReadTxn())
}

func waitingMessage(names []string) string {
	return "waiting for sources: " + strings.Join(names, ", ")
}

// initTarget repeats Init until it succeeds. It reports false if ctx has ended, with an error if
// Init did not return even then, or if the table was dropped.
func (r *Engine) initTarget(ctx context.Context) (ready bool, err error) {
	for attempts := 1; ; attempts++ {
		returned, err := r.callInit(ctx)
		if returned && err == nil {
			return ctx.Err() == nil, nil
		}
		if !returned {
			return false, fmt.Errorf("reconciler %s stopped: init: %w", r.p.Name, err)
		}
		r.notReady(err, attempts)
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(r.backoff().After(attempts)):
		}
		if r.sources(r.p.DB.ReadTxn()).dropped {
			return false, r.errDropped()
		}
	}
}

func (r *Engine) notReady(err error, attempts int) {
	err = &TargetError{Operation: "init", Err: err}
	r.unready.Store(&Wait{Cause: waitTarget, Text: "the target, which is not ready: " + err.Error()})
	r.p.Health.Degraded("target is not ready", err)
	r.p.Logger.Warn("target is not ready", "reconciler", r.p.Name, "attempts", attempts, "error", err)
}

// initCall is a running Init. It has a goroutine of its own because it may ignore its context or
// end its goroutine.
type initCall struct {
	goroutine chan []byte
	ended     chan error
}

// callInit calls the target's Init. A stuck one is reported, but waited for until ctx ends, because
// two calls must not overlap. callInit reports whether Init has returned.
func (r *Engine) callInit(ctx context.Context) (returned bool, err error) {
	began := time.Now()
	opCtx, cancel := context.WithTimeoutCause(ctx, r.p.Config.OperationTimeout, pool.ErrOverdue)
	defer cancel()
	c := &initCall{goroutine: make(chan []byte, 1), ended: make(chan error, 1)}
	go r.runInit(opCtx, c)
	select {
	case err := <-c.ended:
		return true, err
	case <-opCtx.Done():
	}
	grace := time.NewTimer(r.p.Config.stuckAfter())
	defer grace.Stop()
	select {
	case err := <-c.ended:
		return true, err
	case <-grace.C:
	}
	stuck := &StuckError{After: time.Since(began), Stack: pool.StackOf(<-c.goroutine)}
	r.notReady(stuck, 0)
	select {
	case err := <-c.ended:
		return true, err
	case <-ctx.Done():
		return false, stuck
	}
}

// runInit turns a panic and the end of the goroutine into errors.
func (r *Engine) runInit(ctx context.Context, c *initCall) {
	c.goroutine <- pool.Goroutine()
	err := pool.ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		c.ended <- err
	}()
	err = r.explained(ctx, r.p.Target.Init(ctx))
}
