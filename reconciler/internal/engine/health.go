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

// A failing row becomes news, and so affects health, after this many attempts, after this time, or
// if its next try is further away than that. A single short failure does not.
const (
	steadyAttempts = 2
	healthGrace    = time.Second
)

// steady reports whether the failure of an item is news immediately.
func steady(it *workqueue.Item, now time.Time) bool {
	return it.Attempts >= steadyAttempts || hold.IsTerminal(it.Err) || it.Stage() == workqueue.Stuck || it.Due().Sub(now) > healthGrace
}

// healthState is what health depends on, other than the failing rows.
type healthState struct {
	sources       sources
	firstPassDone bool
	young         []youngFailure   // in order of time; may have failures that have ended
	concerns      map[string]error // problems other than failing rows, by subject
	version       uint64           // incremented when news or concerns change
	seen          healthFacts      // as of the last report
	reported      string
	failed        failureLog
	waits         waits
}

type youngFailure struct {
	key   string
	since time.Time
}

// failing records whether an item whose outcome was written is failing. A failure that is news
// remains news until the row no longer fails.
func (l *loop) failing(it *workqueue.Item, now time.Time) {
	if it.Err == nil {
		l.fine(it.Key)
		return
	}
	operation := pool.Update
	if it.Deleting {
		operation = pool.Delete
	}
	name := l.r.p.Table.KeyText(it.Entry)
	f := l.hasFailed(it, name, reasonOf(operation.String(), name, it.Err), it.Err, now)
	f.confirmed = true
	if steady(it, now) && l.r.failures.becomesNews(f) {
		l.health.version++
	}
}

// hasFailed records that an operation on an item has failed.
func (l *loop) hasFailed(it *workqueue.Item, name string, why reason, err error, now time.Time) *failure {
	f, first := l.r.failures.fails(it.Key, name, why, err, now)
	if first {
		l.health.young = append(l.health.young, youngFailure{it.Key, now})
	}
	if f.newsSeq != 0 {
		l.health.version++
	}
	return f
}

// neverFailed records that the failed operation of an item was outdated. Earlier failures remain.
func (l *loop) neverFailed(it *workqueue.Item) {
	if f := l.r.failures.get(it.Key); f != nil && !f.confirmed {
		l.fine(it.Key)
	}
}

// fine records that a row does not fail, or needs nothing.
func (l *loop) fine(key string) {
	if l.r.failures.fine(key) {
		l.health.version++
	}
}

// promoteFailures makes news of failures that have lasted for healthGrace.
func (l *loop) promoteFailures(now time.Time) {
	h := &l.health
	for len(h.young) > 0 && now.Sub(h.young[0].since) >= healthGrace {
		y := h.young[0]
		h.young = h.young[1:]
		if f := l.r.failures.get(y.key); f != nil && f.since.Equal(y.since) && l.r.failures.becomesNews(f) {
			h.version++
		}
	}
	if len(h.young) == 0 {
		h.young = nil
	}
}

// concern records a problem other than a failing row, or that it has ended if err is nil.
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

// healthFacts are the inputs of the health message, which is composed only when they change.
type healthFacts struct {
	ready, firstPassDone, held, orphans, paused bool
	version                                     uint64
	stuck, heldDeletes, heldUpdates             int
}

func (l *loop) healthFacts(now time.Time) healthFacts {
	f := healthFacts{
		ready: l.ready, firstPassDone: l.health.firstPassDone, held: l.held, version: l.health.version, stuck: len(l.pool.Stuck()),
		orphans: l.plan.attempts >= steadyAttempts || l.plan.attempts > 0 && now.Sub(l.plan.failing) >= healthGrace,
		paused:  l.queue.In(workqueue.Paused) > 0,
	}
	f.heldDeletes, f.heldUpdates = l.limits.HeldItems()
	return f
}

// report reports health if it has changed.
func (l *loop) report(now time.Time) {
	h := &l.health
	l.logFailures(now)
	l.promoteFailures(now)
	l.driftHealth()
	l.reportWaits(now)
	if l.limits.Changed() {
		l.health.concern("held deletes cannot be stored", l.limits.Unstored())
	}
	facts := l.healthFacts(now)
	// The state of sources is not among the facts.
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

// healthDue returns when health may change by itself, or zero.
func (l *loop) healthDue(now time.Time) (due time.Time) {
	if young := l.health.young; len(young) > 0 {
		due = young[0].since.Add(healthGrace)
	}
	due = earliest(earliest(due, l.health.failed.due), l.health.waits.due)
	if at := l.plan.failing.Add(healthGrace); l.plan.attempts > 0 && at.After(now) {
		due = earliest(due, at)
	}
	return due
}

// waits are the rows that have waited for long: for other rows, or for the rate limit.
type waits struct {
	due      time.Time // when to look for them again; zero: none waits
	reported string
}

const (
	// waitGrace is how long a row may wait for others or for the rate limit before health says so.
	waitGrace = time.Minute
	waitCheck = 10 * time.Second
)

// reportWaits reports to health whether rows have waited for long, other than those that are paused or need an approval.
func (l *loop) reportWaits(now time.Time) {
	w := &l.health.waits
	if l.queue.In(workqueue.Dependency)+l.queue.In(workqueue.Order)+l.queue.In(workqueue.Queued) == 0 {
		w.due = time.Time{}
		l.setWaits("")
		return
	}
	if now.Before(w.due) {
		return
	}
	w.due = now.Add(waitCheck)
	rows, first := 0, (*workqueue.Item)(nil)
	for _, it := range l.queue.Items {
		switch it.Stage() {
		case workqueue.Dependency, workqueue.Order, workqueue.Queued:
		default:
			continue
		}
		if it.Since.IsZero() || now.Sub(it.Since) < waitGrace || it.Entry == nil {
			continue
		}
		if rows++; first == nil || it.Since.Before(first.Since) || it.Since.Equal(first.Since) && it.Key < first.Key {
			first = it
		}
	}
	if rows == 0 {
		l.setWaits("")
		return
	}
	operation, what := "update", first.Detail()
	if first.Deleting {
		operation = "delete"
	}
	if first.Stage() == workqueue.Queued {
		what = "its turn"
	}
	text := fmt.Sprintf("the %s of %s waits for %s", operation, l.r.p.Table.KeyText(first.Entry), what)
	if rows > 1 {
		text = fmt.Sprintf("%d rows, the first is: %s", rows, text)
	}
	l.setWaits(text)
}

func (l *loop) setWaits(text string) {
	const about = "rows have waited for more than a minute"
	switch text {
	case l.health.waits.reported:
	case "":
		l.health.concern(about, nil)
	default:
		l.health.concern(about, errors.New(text))
	}
	l.health.waits.reported = text
}

func (l *loop) healthMessage(facts healthFacts) (string, error) {
	if !facts.ready {
		return waitingMessage(l.health.sources.waitingFor), nil
	}
	if t := l.problems(facts); len(t.parts) > 0 {
		return strings.Join(t.parts, ", "), t.err()
	}
	switch {
	case facts.held:
		return "removal of orphans is held: " + reasons(l.health.sources.incomplete), nil
	case !facts.firstPassDone:
		return "applying all rows for the first time", nil
	case facts.paused:
		return "reconciled, except for paused rows", nil
	}
	return "reconciled", nil
}

// errStillStuck is the error for stuck operations that no row in error accounts for.
var errStillStuck = errors.New("an operation has not returned long after its deadline")

// problems are the parts of a degraded health, with their errors.
type problems struct {
	parts []string
	errs  listError
}

func (t *problems) add(part string, errs ...error) {
	t.parts, t.errs = append(t.parts, part), append(t.errs, errs...)
}

func (t *problems) err() error {
	if len(t.errs) == 1 {
		return t.errs[0]
	}
	return t.errs
}

func (l *loop) problems(facts healthFacts) (t problems) {
	h := &l.health
	if groups, all, more := l.r.failures.worst(); all > 0 {
		errs := make([]error, 0, len(groups)+1)
		for _, g := range groups {
			errs = append(errs, g)
		}
		if more > 0 {
			errs = append(errs, fmt.Errorf("%d more rows", more))
		}
		t.add(fmt.Sprintf("rows in error: %d", all), errs...)
	}
	if facts.stuck > 0 {
		t.add(fmt.Sprintf("operations stuck: %d", facts.stuck))
	}
	for _, held := range l.limits.Held() {
		if held.Items > 0 {
			t.add(fmt.Sprintf("%vs held: %d", held.Kind, held.Items), fmt.Errorf("%s: %w", held.Why, errUnapproved))
		}
	}
	if facts.orphans {
		t.add("orphans cannot be found", l.plan.err)
	}
	for _, about := range sortedKeys(h.concerns) {
		t.add(about, h.concerns[about])
	}
	if len(t.parts) > 0 && len(t.errs) == 0 {
		t.errs = append(t.errs, errStillStuck)
	}
	return t
}

// groupError describes the rows that fail for one reason, in one line.
type groupError struct {
	why      reason
	rows     int
	examples []string // keys of the rows that have been news for longest
	first    failure  // the failure that has been news for longest
}

// Error implements error.
func (e groupError) Error() string {
	if e.rows == 1 {
		line, _, _ := strings.Cut(e.first.err.Error(), "\n")
		return e.first.what() + ": " + line
	}
	text := fmt.Sprintf("%d rows: %s (%s", e.rows, e.why.text, strings.Join(e.examples, ", "))
	if e.why.operation != "" {
		text = e.why.operation + " of " + text
	}
	if e.rows > len(e.examples) {
		text += ", …"
	}
	return text + ")"
}

// Unwrap returns the error of the first of the rows.
func (e groupError) Unwrap() error { return e.first.err }

// listError is several errors in one line.
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
