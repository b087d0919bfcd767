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

// NotTried yields what of a snapshot was wanted when the sources had delivered
// their first listings, and has not been tried since, or has failed fewer than so
// many times and will be tried again: keys as text, with how it stands with the row. Rows that
// were deleted or changed since then are none of it, and neither is a row that
// nothing will try soon: that is paused, stuck, has failed for good, or waits for another row, which is
// for the reconciler of that one to tell. Nothing before the first listings. It
// reads the table as far as it is followed. How often a row has failed is known from
// the table of what is not done, which is told of a row at most once a second: a row
// may be yielded that much longer. Without that table nobody knows: one failure is enough then.
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

// notTried says how it stands with a row that is not done and was not tried often
// enough; nothing of others.
func (r *Engine) notTried(txn store.ReadTxn, e *store.Entry, status Status, tries int, depends *hold.Checker) string {
	switch {
	case r.notTriedSoon(txn, e, status, depends):
		return ""
	case status.Kind() == Pending:
		return "it was not tried yet"
	case r.p.NotDone == nil:
		return ""
	}
	row, _ := r.notDoneRow(txn, r.p.Table.KeyText(e))
	failed := max(1, row.Attempts) // as the status says, which the table may not have been told yet
	if failed >= tries || row.terminal() {
		return ""
	}
	next := ""
	if !row.NextDue.IsZero() {
		next = ", the next is at " + row.NextDue.Format(timeFormat)
	}
	return fmt.Sprintf("it failed %d of %d tries%s: %v", failed, tries, next, status.Err())
}

// notTriedSoon says that nothing will try a row soon, which is not because it was tried.
// The table of what is not done is too late to tell.
func (r *Engine) notTriedSoon(txn store.ReadTxn, e *store.Entry, status Status, depends *hold.Checker) bool {
	until, paused := r.pauses.Paused(e)
	if paused && (until.IsZero() || time.Now().Before(until)) {
		return true
	}
	var stuck *StuckError
	return errors.As(status.Err(), &stuck) || depends.Blocked(txn, e)
}

// sources is what is known of those that feed a table.
type sources struct {
	waitingFor []string          // they have not delivered their first listing
	incomplete map[string]string // why rows may be missing, by name
	dropped    bool              // there is no table any more, which says nothing of its rows
}

// sources says how it stands with the sources in a snapshot. Those that are not
// waited for any longer count as incomplete.
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

// removalHeld says whether a row that is missing may be wanted nevertheless.
func (s sources) removalHeld() bool { return !s.ready() || len(s.incomplete) > 0 }

// ready says that there is a table and that it is initialized, as far as that is
// waited for.
func (s sources) ready() bool { return !s.dropped && len(s.waitingFor) == 0 }

// errDropped is the end of a run whose table was dropped.
func (r *Engine) errDropped() error {
	return fmt.Errorf("reconciler %s stopped: %w", r.p.Name, &store.TableError{Table: r.p.Table.Name(), Err: store.ErrDropped})
}

// patience is since when a source is waited for, by name. It belongs to the
// goroutine of Run.
type sourcesSince map[string]time.Time

// updateSources says how it stands with the sources now, and gives up waiting for
// those that take too long. It has to be called again when until has come, if that
// is not zero.
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

// giveUpSources says which sources are not waited for.
func (r *Engine) giveUpSources(late []string) {
	before := *r.late.Load()
	if slices.Equal(before, late) {
		return
	}
	r.late.Store(&late)
	for _, name := range late {
		if !slices.Contains(before, name) {
			r.p.Logger.Warn("source is not waited for any longer: removal of orphans is held until it delivers",
				"reconciler", r.p.Name, "source", name, "after", r.p.Config.SourceTimeout)
		}
	}
}

// waitForSources returns when the table is initialized, or what is missing is not
// waited for. False: ctx ended, or there is an error.
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

// tableChanged returns a channel that closes at the next commit that changes the
// table or what is known of its sources.
func (r *Engine) tableChanged() <-chan struct{} {
	return r.p.Table.Watch(r.p.DB.ReadTxn())
}

func waitingMessage(names []string) string {
	return "waiting for sources: " + strings.Join(names, ", ")
}

// initTarget repeats Init until it succeeds. False: ctx ended, and the error is of
// an Init that did not return nevertheless; or the table was dropped.
func (r *Engine) initTarget(ctx context.Context) (ready bool, err error) {
	for attempts := 1; ; attempts++ {
		returned, err := r.callInit(ctx)
		if returned && err == nil {
			return true, nil
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

// initCall is an Init under way, in a goroutine of its own: it may not heed its
// context, or end its goroutine.
type initCall struct {
	goroutine chan []byte
	ended     chan error
}

// callInit calls the target's Init. One that is stuck is reported and waited for,
// since two must not overlap, until ctx ends: then it has not returned.
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

// runInit makes errors of a panic and of an ended goroutine.
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
