package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/statehive/statehive/internal/store"
)

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
type patience map[string]time.Time

// lookAtSources says how it stands with the sources now, and gives up waiting for
// those that take too long. It has to be called again when until has come, if that
// is not zero.
func (r *Engine) lookAtSources(now time.Time) (all sources, until time.Time) {
	txn, limit := r.p.DB.ReadTxn(), r.p.Config.SourceTimeout
	if limit == 0 {
		return r.sources(txn), until
	}
	waited, late := patience{}, []string{}
	for _, s := range r.p.Table.Sources(txn) {
		if s.Initialized {
			continue
		}
		since, known := r.patience[s.Name]
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
	r.patience = waited
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
			r.p.Logger.Warn("source is not waited for any longer: removal of surplus is held until it delivers",
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
		all, until := r.lookAtSources(now)
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
