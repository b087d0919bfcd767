package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/loglimit"
)

const (
	// logInterval is how long after a report of failures the next one comes at the
	// earliest. The first comes soon, because it has the count.
	logInterval = time.Minute
	logSoon     = 10 * time.Second
	// loggedReasons is how many reasons are logged at once when they are new, within
	// logInterval, and how many have a line of their own in a report. Within any minute
	// that is less than package loglimit lets pass.
	loggedReasons = 10
	// maxLogged bounds how many reasons are told apart at a time.
	maxLogged = 1000
)

// failureLog logs operations that fail: a line when a reason is new, and then at most one a
// minute with the count. The zero value has logged nothing.
type failureLog struct {
	reasons map[reason]*logged // those of operations that have failed since the report before the last one
	due     time.Time          // of the next report; zero: there is nothing to report
	last    time.Time          // report
	since   time.Time          // told counts since then
	told    int                // lines about new reasons
}

// logged is what no line has told yet of a reason.
type logged struct {
	left int // how many operations have failed
	key  string
	err  error // of the last one
}

// failed counts an operation that has failed, and reports whether it is to be logged now: its
// reason is new. Rows already fail for a reason that is known.
func (f *failureLog) failed(why reason, key string, err error, known bool, now time.Time) bool {
	if f.due.IsZero() {
		f.due = now.Add(logSoon)
		if at := f.last.Add(logInterval); at.After(f.due) {
			f.due = at
		}
	}
	if f.reasons == nil {
		f.reasons = map[reason]*logged{}
	}
	if now.Sub(f.since) >= logInterval {
		f.since, f.told = now, 0
	}
	e := f.reasons[why]
	if e == nil {
		if len(f.reasons) >= maxLogged {
			why.text, known = otherErrors, true
			e = f.reasons[why]
		}
		if e == nil {
			e = &logged{}
			f.reasons[why] = e
		}
		if !known && f.told < loggedReasons {
			f.told++
			return true
		}
	}
	e.left++
	e.key, e.err = key, err
	return false
}

// logFailure logs an operation that has failed, unless that is for the next report.
func (l *loop) logFailure(why reason, name string, attempts int, err error, now time.Time) {
	rows, _ := l.r.failures.of(why)
	if l.health.failed.failed(why, name, err, rows > 0, now) {
		l.r.p.Logger.Warn(why.operation+" failed", "reconciler", l.r.p.Name, "key", name, "attempts", attempts, "error", err)
	}
}

// logFailures logs what has failed since the last report, if it is time for the next one.
func (l *loop) logFailures(now time.Time) {
	f := &l.health.failed
	if f.due.IsZero() || now.Before(f.due) {
		return
	}
	f.last, f.due = now, time.Time{}
	l.reportFailures()
	if len(f.reasons) > 0 {
		f.due = now.Add(logInterval)
	}
}

// reportFailures logs a line with a count for each of the reasons that most operations have
// failed for, and one for each operation about all others.
func (l *loop) reportFailures() {
	f := &l.health.failed
	var pending []reason
	for why, e := range f.reasons {
		if e.left > 0 {
			pending = append(pending, why)
		} else {
			delete(f.reasons, why)
		}
	}
	slices.SortFunc(pending, func(a, b reason) int {
		return cmp.Or(cmp.Compare(f.reasons[b].left, f.reasons[a].left), cmp.Compare(a.text, b.text), cmp.Compare(a.operation, b.operation))
	})
	others := map[string]logged{}
	for i, why := range pending {
		e := f.reasons[why]
		switch {
		case i < loggedReasons && why.text != otherErrors:
			l.reportFailure(why, *e)
		default:
			o := others[why.operation]
			others[why.operation] = logged{o.left + e.left, e.key, e.err}
		}
		*e = logged{}
	}
	for _, operation := range sortedKeys(others) {
		l.reportFailure(reason{operation, otherErrors}, others[operation])
	}
}

// reportFailure logs how many operations have failed for a reason since the last line about
// it, and how many rows are failing for it now.
func (l *loop) reportFailure(why reason, e logged) {
	rows, examples := l.r.failures.of(why)
	attrs := []any{"reconciler", l.r.p.Name, loglimit.LeftOut, e.left}
	switch {
	case why.text == otherErrors:
		attrs = append(attrs, "key", e.key, "error", otherErrors, "last", e.err)
	case rows < 2:
		attrs = append(attrs, "rows", rows, "key", e.key, "error", e.err)
	default:
		attrs = append(attrs, "rows", rows, "keys", examples, "error", why.text)
	}
	l.r.p.Logger.Warn(why.operation+" failed", attrs...)
}
