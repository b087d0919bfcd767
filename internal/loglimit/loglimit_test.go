package loglimit_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/internal/loglimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// book is a log whose lines a test looks at.
type book struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// lines returns what was logged since the last call.
func (b *book) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := strings.Split(strings.TrimSuffix(b.buf.String(), "\n"), "\n")
	b.buf.Reset()
	return lines
}

func newBook(o loglimit.Options) (*book, *loglimit.Handler) {
	b := &book{}
	return b, loglimit.New(slog.NewTextHandler(b, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}), o)
}

func logging(t *testing.T, test func(t *testing.T, b *book, h *loglimit.Handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, h := newBook(loglimit.Options{})
		test(t, b, h)
		h.Close()
	})
}

func want(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestWhatIsLeftOutIsCountedAtTheEndOfTheWindow(t *testing.T) {
	logging(t, func(t *testing.T, b *book, h *loglimit.Handler) {
		log := slog.New(h)
		for i := range 1000 {
			log.Warn("update failed", "key", i)
		}
		if lines := b.lines(); len(lines) != loglimit.Passed || lines[49] != `level=WARN msg="update failed" key=49` {
			t.Errorf("%d lines at once: %q", len(lines), lines)
		}
		pass(59 * time.Second)
		log.Warn("update failed", "key", "last")
		want(t, []string{""}, b.lines())
		pass(time.Second) // nobody logs anything
		want(t, []string{`level=WARN msg="update failed" leftOut=951 key=last`}, b.lines())
		log.Warn("update failed", "key", "new")
		want(t, []string{`level=WARN msg="update failed" key=new`}, b.lines())
		pass(time.Hour)
		want(t, []string{""}, b.lines())
	})
}

func TestAWindowThatLeftNothingOutEndsInSilence(t *testing.T) {
	logging(t, func(t *testing.T, b *book, h *loglimit.Handler) {
		log := slog.New(h)
		for i := range 4 {
			for range loglimit.Passed {
				log.Error("boom", "round", i)
			}
			if lines := b.lines(); len(lines) != loglimit.Passed {
				t.Errorf("%d lines", len(lines))
			}
			pass(time.Minute)
			want(t, []string{""}, b.lines())
		}
	})
}

func TestOneCauseDoesNotLimitAnother(t *testing.T) {
	logging(t, func(t *testing.T, b *book, h *loglimit.Handler) {
		log := slog.New(h)
		for range 1000 {
			log.Warn("update failed")
			log.Debug("row is done")
		}
		if n := strings.Count(strings.Join(b.lines(), "\n"), "row is done"); n != 1000 {
			t.Errorf("%d of 1000 records below the level were passed on", n)
		}
		log.Warn("delete failed")
		want(t, []string{`level=WARN msg="delete failed"`}, b.lines())
	})
}

func TestDerivedHandlersShareTheLimit(t *testing.T) {
	logging(t, func(t *testing.T, b *book, h *loglimit.Handler) {
		for i := range 100 {
			slog.New(h).With("of", i).WithGroup("row").Warn("update failed", "key", i)
		}
		if lines := b.lines(); len(lines) != loglimit.Passed {
			t.Errorf("%d lines", len(lines))
		}
		pass(time.Minute)
		want(t, []string{`level=WARN msg="update failed" of=99 row.leftOut=50 row.key=99`}, b.lines())
	})
}

func TestCausesAreToldApartByAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := newBook(loglimit.Options{Level: slog.LevelWarn, Apart: []string{"module"}})
		for i := range 60 {
			for _, module := range []string{"a", "b"} {
				slog.New(h).With("row", i).With("module", module).Warn("update failed")
				slog.New(h).With("module", module).Info("updated")
			}
		}
		if lines := strings.Join(b.lines(), "\n"); strings.Count(lines, "failed") != 2*loglimit.Passed || strings.Count(lines, "updated") != 120 {
			t.Errorf("got\n%s", lines)
		}
		pass(time.Minute)
		lines := b.lines()
		slices.Sort(lines)
		want(t, []string{
			`level=WARN msg="update failed" row=59 module=a leftOut=10`,
			`level=WARN msg="update failed" row=59 module=b leftOut=10`,
		}, lines)
		h.Close()
	})
}

// A handler in a library and one in the application around it limit the same records: the counts of the first are kept.
func TestCountsOfAnotherHandlerArePassedOn(t *testing.T) {
	logging(t, func(t *testing.T, b *book, outer *loglimit.Handler) {
		inner := loglimit.New(outer, loglimit.Options{})
		for range 1000 {
			slog.New(inner).Warn("update failed")
		}
		if lines := b.lines(); len(lines) != loglimit.Passed {
			t.Errorf("%d lines", len(lines))
		}
		pass(time.Minute)
		want(t, []string{`level=WARN msg="update failed" leftOut=950`}, b.lines())
		inner.Close()
	})
}

// TestNoMinuteHasMoreThanTwiceAsManyLines logs without end, for as long as the worst minute can begin anywhere.
func TestNoMinuteHasMoreThanTwiceAsManyLines(t *testing.T) {
	logging(t, func(t *testing.T, b *book, h *loglimit.Handler) {
		var perSecond []int
		for second := range 300 {
			for range 200 {
				if second > 0 && second < 59 {
					break // the worst: one at the beginning of a window, all others at its end
				}
				slog.New(h).Error("boom")
				if second == 0 {
					break
				}
			}
			pass(time.Second)
			perSecond = append(perSecond, strings.Count(strings.Join(b.lines(), "\n"), "boom"))
		}
		for i := range perSecond[60:] {
			lines := 0
			for _, n := range perSecond[i : i+60] {
				lines += n
			}
			if lines > 2*loglimit.Passed {
				t.Errorf("%d lines in the minute from second %d", lines, i)
			}
		}
	})
}

func TestCloseWritesWhatIsPendingAndEndsTheLimit(t *testing.T) {
	logging(t, func(t *testing.T, b *book, h *loglimit.Handler) {
		log := slog.New(h)
		for i := range 60 {
			log.Warn("b", "i", i)
			log.Error("a", "i", i)
		}
		log.Warn("c")
		b.lines()
		h.Close()
		want(t, []string{"level=ERROR msg=a leftOut=10 i=59", "level=WARN msg=b leftOut=10 i=59"}, b.lines())
		h.Close()
		pass(time.Hour)
		want(t, []string{""}, b.lines())
		for range 2 * loglimit.Passed {
			log.Warn("b")
		}
		if lines := b.lines(); len(lines) != 2*loglimit.Passed {
			t.Errorf("%d lines after Close", len(lines))
		}
	})
}

// TestNothingIsLost logs from several goroutines over several windows.
func TestNothingIsLost(t *testing.T) {
	logging(t, func(t *testing.T, b *book, h *loglimit.Handler) {
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := range 5000 {
					slog.New(h).Warn(fmt.Sprint("cause ", i%2))
					if i%10 == w {
						<-time.After(time.Second)
					}
				}
			})
		}
		writers.Wait()
		h.Close()
		passed, left := 0, 0
		for _, line := range b.lines() {
			if _, n, counted := strings.Cut(line, "leftOut="); counted {
				var count int
				if _, err := fmt.Sscan(n, &count); err != nil {
					t.Fatal(err)
				}
				left += count
			} else {
				passed++
			}
		}
		if passed+left != 20_000 || left == 0 {
			t.Errorf("%d lines and %d left out, of 20000", passed, left)
		}
	})
}

func TestTheLevelOfTheOtherHandlerCounts(t *testing.T) {
	h := loglimit.New(slog.NewTextHandler(&book{}, &slog.HandlerOptions{Level: slog.LevelError}), loglimit.Options{})
	if h.Enabled(t.Context(), slog.LevelWarn) || !h.Enabled(t.Context(), slog.LevelError) {
		t.Error("the level is not that of the other handler")
	}
}

func TestCauseCostsNoMoreBesideManyOthers(t *testing.T) {
	cost := func(n int) time.Duration {
		least := time.Hour
		for range 3 {
			logger := slog.New(loglimit.New(slog.NewTextHandler(io.Discard, nil), loglimit.Options{}))
			began := time.Now()
			for i := range n {
				logger.Error(fmt.Sprint("cause ", i))
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	if few, many := cost(1000), cost(20000); many > 100*few {
		t.Errorf("1,000 causes took %v, 20,000 took %v", few, many)
	}
}
