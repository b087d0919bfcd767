package reconciler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A row that fails is news once it has failed so often, or if it is not tried
// again for so long: one short failure is none.
const (
	steadyAttempts = 2
	steadyDelay    = time.Second
)

// steady says whether the failure of an item is news.
func steady[Obj any](it *item[Obj], now time.Time) bool {
	return it.attempts >= steadyAttempts || isTerminal(it.err) || it.due.Sub(now) > steadyDelay
}

// healthState is what health is made of. It keeps the rows that fail.
type healthState struct {
	sources  sources
	settled  bool               // the first full pass is over
	errors   map[string]failure // by encoded key
	steady   int                // those that failed steadyAttempts times
	shown    string             // key of the one whose error is reported
	reported string
	concerns map[string]error // by what they are about
	current  int              // errors told to metrics, plus one so that the first 0 is told
}

type failure struct {
	steady bool
	err    error
}

// failing records the failure of a row, if it is one. What was steady stays so
// until the row is fine.
func (h *healthState) failing(key string, f failure) {
	if f.err == nil {
		h.fine(key)
		return
	}
	if h.errors == nil {
		h.errors = map[string]failure{}
	}
	f.steady = f.steady || h.errors[key].steady
	h.fine(key)
	if h.errors[key] = f; f.steady {
		h.steady++
	}
}

func (h *healthState) fine(key string) {
	if h.errors[key].steady {
		h.steady--
	}
	delete(h.errors, key)
}

// example returns the error of a row that fails steadily: the same as before,
// as long as that one does.
func (h *healthState) example() error {
	if f := h.errors[h.shown]; f.steady {
		return f.err
	}
	for key, f := range h.errors {
		if f.steady {
			h.shown = key
			return f.err
		}
	}
	return nil
}

// report tells health and metrics how it stands, if that is new.
func (l *loop[Obj]) report() {
	h := &l.health
	if n := len(h.errors); n+1 != h.current {
		h.current = n + 1
		l.r.p.Metrics.ErrorsCurrent(n)
	}
	message, err := l.healthMessage()
	text := message
	if err != nil {
		text += ": " + err.Error()
	}
	if text == h.reported {
		return
	}
	h.reported = text
	if err != nil || !l.ready {
		l.r.p.Health.Degraded(message, err)
		return
	}
	l.r.p.Health.OK(message)
}

func (l *loop[Obj]) healthMessage() (string, error) {
	switch n := l.health.steady; {
	case !l.ready:
		return waitingMessage(l.health.sources.waitingFor), nil
	case l.blast.holding():
		return l.blast.message(n, l.health.example())
	case n > 0:
		return fmt.Sprintf("rows in error: %d", n), l.health.example()
	case l.plan.attempts >= steadyAttempts:
		return "surplus cannot be found", l.plan.err
	case l.held:
		return "removal of surplus is held: " + reasons(l.health.sources.incomplete), nil
	case len(l.health.concerns) > 0:
		return l.health.worst()
	case !l.health.settled:
		return "applying all rows for the first time", nil
	}
	return "reconciled", nil
}

func reasons(incomplete map[string]string) string {
	parts := make([]string, 0, len(incomplete))
	for _, name := range slices.Sorted(maps.Keys(incomplete)) {
		parts = append(parts, name+": "+incomplete[name])
	}
	return strings.Join(parts, "; ")
}

// concern records what is wrong with something else than a row, or that nothing
// is if err is nil.
func (h *healthState) concern(about string, err error) {
	if h.concerns == nil {
		h.concerns = map[string]error{}
	}
	if h.concerns[about] = err; err == nil {
		delete(h.concerns, about)
	}
}

// worst returns the first concern.
func (h *healthState) worst() (string, error) {
	about := sortedKeys(h.concerns)[0]
	return about, h.concerns[about]
}
