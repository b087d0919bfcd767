package engine

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/statehive/statehive/internal/loglimit"
)

const (
	// logInterval is the shortest time between two reports of failures. The first report comes
	// after logSoon, because the line about a new reason has no count.
	logInterval = time.Minute
	logSoon     = 10 * time.Second
	// loggedReasons is how many new reasons are logged immediately within logInterval, and how
	// many get a line of their own in a report. It stays below the limit of package loglimit.
	loggedReasons = 10
	// maxLogged bounds how many reasons are tracked at a time.
	maxLogged = 1000
)

// failureLog logs failed operations: a line when a reason is new, and then at most one a minute
// with the count. The zero value is ready to use.
type failureLog struct {
	reasons  map[reason]*logged // of failures since the second-to-last report
	due      time.Time          // when the next report is due; zero if there is nothing to report
	last     time.Time          // when the last report was made
	since    time.Time          // start of the interval that newLines counts in
	newLines int                // lines logged about new reasons
}

// logged counts the failures for a reason that have not been logged yet.
type logged struct {
	left int // number of failed operations
	key  string
	err  error // of the last one
}

// failed counts a failed operation, and reports whether to log it now because its reason is new.
// A reason is known if other rows are failing for it.
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
		f.since, f.newLines = now, 0
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
		if !known && f.newLines < loggedReasons {
			f.newLines++
			return true
		}
	}
	e.left++
	e.key, e.err = key, err
	return false
}

// logFailure logs a failed operation, unless the next report covers it.
func (l *loop) logFailure(why reason, name string, attempts int, err error, now time.Time) {
	rows, _ := l.r.failures.of(why)
	if l.health.failed.failed(why, name, err, rows > 0, now) {
		l.r.p.Logger.Warn(why.operation+" failed", "reconciler", l.r.p.Name, "key", name, "attempts", attempts, "error", err)
	}
}

// logFailures logs the next report if it is due.
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

// reportFailures logs a line with a count for each of the most frequent reasons, and one for each
// kind of operation about all the others.
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

// reportFailure logs how many operations have failed for a reason since its last line, and how
// many rows are failing for it now.
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

// reason is the operation and the error text that the rows of a group have in common.
type reason struct{ operation, text string }

// reasonOf returns the reason why an operation on a row has failed. Its text does not name the row.
func reasonOf(operation, name string, err error) reason {
	text := err.Error()
	var stuck *StuckError
	if errors.As(err, &stuck) {
		text = strings.Replace(text, stuck.After.Round(time.Millisecond).String(), "its time", 1)
	}
	text, _, _ = strings.Cut(text, "\n")
	text = replaceWord(text, name)
	if strings.ContainsRune(name, ' ') {
		for word := range strings.FieldsSeq(name) {
			if utf8.RuneCountInString(word) >= minWord {
				text = replaceWord(text, word)
			}
		}
	}
	return reason{operation, shortened(text)}
}

// shortened returns a text cut to at most maxReason bytes.
func shortened(text string) string {
	if len(text) <= maxReason {
		return text
	}
	end := maxReason - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) + "…"
}

// replaceWord replaces a word by the placeholder wherever it is not part of a longer word.
func replaceWord(text, word string) string {
	if word == "" || !strings.Contains(text, word) {
		return text
	}
	var replaced strings.Builder
	from := 0
	for {
		at := strings.Index(text[from:], word)
		if at < 0 {
			break
		}
		at += from
		end := at + len(word)
		if continues(text[:at], text[at:]) || continues(text[:end], text[end:]) {
			end = at + 1 // not a word of its own; look for the next one
			replaced.WriteString(text[from:end])
		} else {
			replaced.WriteString(text[from:at])
			replaced.WriteString(keyPlaceholder)
		}
		from = end
	}
	replaced.WriteString(text[from:])
	return replaced.String()
}

// continues reports whether a word goes on from one part of a text to the next.
func continues(before, after string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return ofWord(last) && ofWord(first)
}

func ofWord(r rune) bool {
	return r != utf8.RuneError && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r))
}
