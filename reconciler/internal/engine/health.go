package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// A row that fails is news once it has failed so often, or for so long, or if it
// is not tried again for so long: one short failure is none.
const (
	steadyAttempts = 2
	healthGrace    = time.Second
)

// shownErrors is how many rows in error health names: those that are so longest.
const shownErrors = 3

// steady says whether the failure of an item is news at once.
func steady(it *workqueue.Item, now time.Time) bool {
	return it.Attempts >= steadyAttempts || hold.IsTerminal(it.Err) || it.Stage() == workqueue.Stuck || it.Due().Sub(now) > healthGrace
}

// healthState is what health is made of. It keeps the rows that fail.
type healthState struct {
	sources  sources
	settled  bool               // the first full pass is over
	errors   map[string]failure // by encoded key
	young    []youngFailure     // in order of time; those that are no more may be in it
	order    []place            // likewise of those that are news
	places   uint64             // how many were ever given away
	steady   int                // failures that are news
	concerns map[string]error   // by what they are about
	version  uint64             // changes with what is news, and with concerns
	seen     healthFacts        // when it was last reported
	reported string
}

type failure struct {
	what  string // operation and key
	err   error
	since time.Time
	place uint64 // among those that are news; 0: it is not
}

type youngFailure struct {
	key   string
	since time.Time
}

// place is when a failure became news, in relation to others.
type place struct {
	key    string
	number uint64
}

// failing records how it stands with an item that has been run. A failure that was
// news stays so until the row is fine.
func (l *loop) failing(it *workqueue.Item, now time.Time) {
	h := &l.health
	if it.Err == nil {
		h.fine(it.Key)
		return
	}
	if h.errors == nil {
		h.errors = map[string]failure{}
	}
	f, known := h.errors[it.Key]
	if !known {
		f.since = now
		h.young = append(h.young, youngFailure{it.Key, now})
	}
	if f.err = it.Err; f.place != 0 {
		h.version++
	}
	f.what = pool.Update.String()
	if it.Deleting {
		f.what = pool.Delete.String()
	}
	f.what += " " + l.r.p.Table.KeyText(it.Entry)
	if f.place == 0 && steady(it, now) {
		f.place = h.news(it.Key)
	}
	h.errors[it.Key] = f
}

// news gives a failure its place.
func (h *healthState) news(key string) uint64 {
	h.places++
	h.steady++
	h.version++
	h.order = append(h.order, place{key, h.places})
	return h.places
}

func (h *healthState) fine(key string) {
	if h.errors[key].place != 0 {
		h.steady--
		h.version++
	}
	delete(h.errors, key)
}

// ripen makes news of what has failed for long.
func (h *healthState) ripen(now time.Time) {
	for len(h.young) > 0 && now.Sub(h.young[0].since) >= healthGrace {
		y := h.young[0]
		h.young = h.young[1:]
		if f, failing := h.errors[y.key]; failing && f.place == 0 && f.since.Equal(y.since) {
			f.place = h.news(y.key)
			h.errors[y.key] = f
		}
	}
	if len(h.young) == 0 {
		h.young = nil
	}
}

// first returns the failures that have been news longest.
func (h *healthState) first() (found []failure) {
	var places []place
	i := 0
	for ; i < len(h.order) && len(found) < shownErrors; i++ {
		if f := h.errors[h.order[i].key]; f.place == h.order[i].number {
			found, places = append(found, f), append(places, h.order[i])
		}
	}
	h.order = h.order[i-len(places):] // the others are no failures any more
	copy(h.order, places)
	return found
}

// concern records what is wrong with something else than a row, or that nothing
// is if err is nil.
func (h *healthState) concern(about string, err error) {
	if _, known := h.concerns[about]; err == nil && !known {
		return
	}
	if h.concerns == nil {
		h.concerns = map[string]error{}
	}
	h.version++
	if h.concerns[about] = err; err == nil {
		delete(h.concerns, about)
	}
}

// healthFacts is what health depends on: what it says is put together only when
// they have changed.
type healthFacts struct {
	ready, settled, held, surplus, paused bool
	version                               uint64
	stuck, heldDeletes, heldUpdates       int
}

func (l *loop) healthFacts(now time.Time) healthFacts {
	f := healthFacts{
		ready: l.ready, settled: l.health.settled, held: l.held, version: l.health.version, stuck: len(l.pool.Stuck()),
		surplus: l.plan.attempts >= steadyAttempts || l.plan.attempts > 0 && now.Sub(l.plan.failing) >= healthGrace,
		paused:  l.queue.In(workqueue.Paused) > 0,
	}
	f.heldDeletes, f.heldUpdates = l.limits.HeldItems()
	return f
}

// report tells health how it stands, if that is new.
func (l *loop) report(now time.Time) {
	h := &l.health
	h.ripen(now)
	l.driftHealth()
	facts := l.healthFacts(now)
	// What sources say is not among the facts.
	if facts == h.seen && facts.ready && !facts.held {
		return
	}
	h.seen = facts
	message, err := l.healthMessage(facts)
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

// healthDue returns when health gets worse by itself, or zero.
func (l *loop) healthDue(now time.Time) (due time.Time) {
	if young := l.health.young; len(young) > 0 {
		due = young[0].since.Add(healthGrace)
	}
	if at := l.plan.failing.Add(healthGrace); l.plan.attempts > 0 && at.After(now) {
		due = earliest(due, at)
	}
	return due
}

func (l *loop) healthMessage(facts healthFacts) (string, error) {
	if !facts.ready {
		return waitingMessage(l.health.sources.waitingFor), nil
	}
	if t := l.troubles(facts); len(t.parts) > 0 {
		return strings.Join(t.parts, ", "), t.err()
	}
	switch {
	case facts.held:
		return "removal of surplus is held: " + reasons(l.health.sources.incomplete), nil
	case !facts.settled:
		return "applying all rows for the first time", nil
	case facts.paused:
		return "reconciled, but for rows that are paused", nil
	}
	return "reconciled", nil
}

// errStillStuck is the error of stuck operations that are on no row in error.
var errStillStuck = errors.New("an operation has not returned long after its deadline")

// troubles is all that is wrong, each with its error.
type troubles struct {
	parts []string
	errs  listError
}

func (t *troubles) add(part string, errs ...error) {
	t.parts, t.errs = append(t.parts, part), append(t.errs, errs...)
}

func (t *troubles) err() error {
	if len(t.errs) == 1 {
		return t.errs[0]
	}
	return t.errs
}

func (l *loop) troubles(facts healthFacts) (t troubles) {
	h := &l.health
	if h.steady > 0 {
		first := h.first()
		errs := make([]error, 0, len(first)+1)
		for _, f := range first {
			errs = append(errs, rowError{f})
		}
		if more := h.steady - len(first); more > 0 {
			errs = append(errs, fmt.Errorf("%d more", more))
		}
		t.add(fmt.Sprintf("rows in error: %d", h.steady), errs...)
	}
	if facts.stuck > 0 {
		t.add(fmt.Sprintf("operations stuck: %d", facts.stuck))
	}
	for _, held := range l.limits.Held() {
		if held.Items > 0 {
			t.add(fmt.Sprintf("%vs held: %d", held.Kind, held.Items), fmt.Errorf("%vs of %v: %w", held.Kind, held.Limit, errUnapproved))
		}
	}
	if facts.surplus {
		t.add("surplus cannot be found", l.plan.err)
	}
	for _, about := range sortedKeys(h.concerns) {
		t.add(about, h.concerns[about])
	}
	if len(t.parts) > 0 && len(t.errs) == 0 {
		t.errs = append(t.errs, errStillStuck)
	}
	return t
}

// rowError is the failure of a row, in one line.
type rowError struct{ failure }

// Error implements error.
func (e rowError) Error() string {
	line, _, _ := strings.Cut(e.err.Error(), "\n")
	return e.what + ": " + line
}

// Unwrap returns what the target returned.
func (e rowError) Unwrap() error { return e.err }

// listError is several errors, in one line.
type listError []error

// Error implements error.
func (e listError) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i], _, _ = strings.Cut(err.Error(), "\n")
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns all of them.
func (e listError) Unwrap() []error { return e }

func reasons(incomplete map[string]string) string {
	parts := make([]string, 0, len(incomplete))
	for _, name := range slices.Sorted(maps.Keys(incomplete)) {
		parts = append(parts, name+": "+incomplete[name])
	}
	return strings.Join(parts, "; ")
}
