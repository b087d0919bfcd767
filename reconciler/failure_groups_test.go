package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// failingRows is how many rows fail for one reason: those of a table whose target
// is not there.
const failingRows = manyRows / 5

// lineLog keeps the warnings and errors that were logged, as lines.
type lineLog struct {
	mu    sync.Mutex
	lines []logLine
}

type logLine struct {
	at   time.Time
	text string
}

func (l *lineLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *lineLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *lineLog) WithGroup(string) slog.Handler                    { return l }

func (l *lineLog) Handle(_ context.Context, r slog.Record) error {
	text := strings.Builder{}
	text.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&text, " %v", a)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, logLine{r.Time, text.String()})
	return nil
}

// took returns the lines so far, and forgets them.
func (l *lineLog) took() []logLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// logged has a world log into a lineLog.
func (w *world) logged() *lineLog {
	log, params := &lineLog{}, w.params
	w.params = func(p *reconciler.Params[row]) {
		if params != nil {
			params(p)
		}
		p.Logger = slog.New(log)
	}
	return log
}

// about returns the lines with a text.
func about(lines []logLine, text string) (found []string) {
	for _, line := range lines {
		if strings.Contains(line.text, text) {
			found = append(found, line.text)
		}
	}
	return found
}

// fails makes all updates and deletes fail, each with an error of its own.
func fails(text func(c call) string) behavior {
	return func(_ context.Context, c call) (reconciler.Result, error) {
		if c.op == "update" || c.op == "delete" {
			return reconciler.Result{}, errors.New(text(c))
		}
		return reconciler.Result{}, nil
	}
}

func sameFailure(call) string { return "no such device" }

// failingTable runs a test with many rows that have failed for the same reason a
// minute ago, and will be tried again in some minutes.
func failingTable(t *testing.T, test func(t *testing.T, w *world, log *lineLog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.MinBackoff, w.config.MaxBackoff, w.config.Workers = 5*time.Minute, 5*time.Minute, 4
		log := w.logged()
		w.start()
		w.target.will(fails(sameFailure))
		w.put(numbered(failingRows, 1)...)
		w.pass(time.Minute)
		test(t, w, log)
		w.stop()
	})
}

func TestManyFailuresForOneReasonAreOneLine(t *testing.T) {
	failingTable(t, func(t *testing.T, w *world, log *lineLog) {
		lines := about(log.took(), "no such device")
		// The first is told of at once, when nobody knows yet how many there will be.
		if len(lines) == 0 || len(lines) > 2 {
			t.Errorf("%d lines within the first minute, expected one or two", len(lines))
		}
		if len(lines) > 0 && !strings.Contains(lines[len(lines)-1], fmt.Sprint(failingRows)) {
			t.Errorf("the last line is %q, expected how many rows they are", lines[len(lines)-1])
		}
		w.pass(10 * time.Minute)
		later := about(log.took(), "no such device")
		if len(later) > 10 {
			t.Errorf("%d lines within ten minutes in which nothing changes, expected one a minute at most", len(later))
		}
	})
}

func TestManyFailuresForOneReasonAreOneInHealth(t *testing.T) {
	failingTable(t, func(t *testing.T, w *world, _ *lineLog) {
		got := w.health.last()
		if !strings.HasPrefix(got, "degraded: ") || strings.Count(got, "no such device") != 1 || strings.Contains(got, "\n") {
			t.Errorf("health is %q, expected one reason in one line", got)
		}
		if want := fmt.Sprintf("%d rows: ", failingRows); !strings.Contains(got, want) {
			t.Errorf("health is %q, expected %q", got, want)
		}
		examples := regexp.MustCompile(`\b1\d{4}\b`).FindAllString(got, -1)
		if len(examples) == 0 || len(examples) > 5 {
			t.Errorf("health is %q, expected a few of the rows", got)
		}
		var target *reconciler.TargetError
		if !errors.As(w.health.err(), &target) {
			t.Errorf("%v is no TargetError", w.health.err())
		}
		if n := len(w.health.since(0)); n > 100 {
			t.Errorf("health was told %d times", n)
		}
		w.target.will(nil)
		w.pass(10 * time.Minute)
		w.equal("health", "ok: reconciled", w.health.last())
		w.wantConverged()
	})
}

func TestHealthTellsFailuresOfDifferentReasonsApart(t *testing.T) {
	prepared(t, func(w *world) {
		w.config.MinBackoff, w.config.MaxBackoff = time.Hour, time.Hour
	}, func(t *testing.T, w *world) {
		w.target.will(fails(func(c call) string {
			switch {
			case c.op == "delete":
				return "permission denied"
			case c.id < "10700":
				return "no such device"
			case c.id < "10900":
				return "permission denied"
			}
			return "invalid row " + c.id
		}))
		w.put(numbered(910, 1)...)
		w.pass(time.Minute)
		got := w.health.last()
		for _, want := range []string{"700 rows: ", "200 rows: "} {
			if !strings.Contains(got, want) {
				t.Errorf("health is %q, expected %q", got, want)
			}
		}
		for _, reason := range []string{"no such device", "permission denied"} {
			if n := strings.Count(got, reason); n != 1 {
				t.Errorf("health is %q, in which %q is %d times, expected once", got, reason, n)
			}
		}
		if strings.Index(got, "no such device") > strings.Index(got, "permission denied") {
			t.Errorf("health is %q, expected what most rows fail for first", got)
		}
		if n := strings.Count(got, "invalid row"); n > 3 || len(got) > 1000 {
			t.Errorf("health is %q, which has %d of ten reasons that are all different", got, n)
		}

		// What changes is how many they are.
		w.target.will(nil)
		for _, id := range idsOf(0, 100) {
			w.write(row{ID: id, Want: 2})
		}
		w.pass(time.Minute)
		if got := w.health.last(); !strings.Contains(got, "600 rows: ") {
			t.Errorf("health is %q, expected that fewer rows fail", got)
		}
		w.fullPass()
		w.pass(time.Minute)
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

// All that goes wrong together has a hundred lines a minute, however different.
func TestAllTroublesTogetherDoNotFillTheLog(t *testing.T) {
	const n = 500
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := withSightings(w)
		log := w.logged()
		w.config.DeleteLimit.Off = true
		w.config.MinBackoff, w.config.MaxBackoff = 10*time.Second, 10*time.Second
		rows := numbered(3*n, 1)
		w.write(rows...)
		for _, r := range rows {
			o.sight(sighting{r.ID, 1})
		}
		w.start()
		w.pass(time.Hour)
		log.took()
		w.target.will(fails(func(c call) string { return "cannot " + c.String() }))
		var differ []sighting
		for _, r := range rows[2*n:] {
			differ = append(differ, sighting{r.ID, 7})
		}
		for i := range rows[:n] {
			rows[i].Want = 2
		}
		w.write(rows[:n]...)
		w.erase(idsOf(n, 2*n)...)
		o.see(differ...)
		w.pass(5 * time.Minute)
		w.stop()

		lines := log.took()
		most, first := 0, 0
		for last := range lines {
			for lines[last].at.Sub(lines[first].at) >= time.Minute {
				first++
			}
			most = max(most, last-first+1)
		}
		if most > 100 {
			t.Errorf("%d lines within a minute, expected a hundred at most", most)
		}
		for _, what := range []string{"cannot update", "cannot delete", "drift"} {
			if len(about(lines, what)) == 0 {
				t.Errorf("no line about %q", what)
			}
		}
	})
}

// A reason that is new is told of at once, however many rows fail for another one.
func TestAnotherReasonIsLoggedWhileManyRowsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.MinBackoff, w.config.MaxBackoff = time.Hour, time.Hour
		log := w.logged()
		w.start()
		w.target.will(fails(func(c call) string {
			if c.id == "late" {
				return "out of memory"
			}
			return sameFailure(c)
		}))
		w.put(numbered(1000, 1)...)
		w.pass(10 * time.Second)
		w.put(row{ID: "late", Want: 1})
		w.pass(time.Second)
		lines := about(log.took(), "out of memory")
		w.equal("lines", 1, len(lines))
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "late") }) {
			t.Errorf("%q do not name the row", lines)
		}
		w.stop()
	})
}

// Errors that name the row are one reason too, and those that are all different have no more
// lines than the others.
func TestFailuresThatAreAllDifferentDoNotFillTheLog(t *testing.T) {
	for name, text := range map[string]func(c call) string{
		"each names its row":     func(c call) string { return "invalid row " + c.id },
		"all are different":      func(c call) string { return "invalid row r" + c.id },
		"each has a few reasons": func(c call) string { return "invalid column " + c.id[3:] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.config.MinBackoff, w.config.MaxBackoff, w.config.Workers = 50*time.Second, 50*time.Second, 4
				log := w.logged()
				w.start()
				w.target.will(fails(text))
				w.put(numbered(failingRows, 1)...)
				w.pass(3 * time.Minute)
				w.stop()
				lines := log.took()
				most, first := 0, 0
				for last := range lines {
					for lines[last].at.Sub(lines[first].at) >= time.Minute {
						first++
					}
					most = max(most, last-first+1)
				}
				if most > 100 || len(lines) < 3 {
					t.Errorf("%d lines, %d of them within a minute, expected a hundred at most", len(lines), most)
				}
			})
		})
	}
}
