package reconciler_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// refreshing is a world whose rows are applied again: "s…" every ten seconds,
// "l…" every hour, and others never.
func refreshing(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	prepared(t, func(w *world) {
		w.params = func(p *reconciler.Params[row]) {
			p.RefreshInterval = func(r row) time.Duration {
				switch {
				case strings.HasPrefix(r.ID, "panics") && r.Want > 1:
					panic("broken")
				case strings.HasPrefix(r.ID, "s"):
					return 10 * time.Second
				case strings.HasPrefix(r.ID, "l"):
					return time.Hour
				}
				return 0
			}
		}
	}, test)
}

func (w *world) updatesIn(d time.Duration) map[string]int {
	w.target.took()
	w.pass(d)
	updates := map[string]int{}
	for _, c := range w.target.took() {
		if c.op == "update" {
			updates[c.id]++
		}
	}
	return updates
}

func TestRowsAreAppliedAgainEachInItsTime(t *testing.T) {
	refreshing(t, func(t *testing.T, w *world) {
		w.put(row{ID: "short", Want: 1}, row{ID: "long", Want: 1}, row{ID: "never", Want: 1})
		got := w.updatesIn(2 * time.Hour)
		// Like full passes these come ±10 %, so that they do not all come at once.
		if got["short"] < 654 || got["short"] > 800 || got["long"] < 1 || got["long"] > 2 || got["never"] != 0 {
			t.Errorf("updates in two hours are %v", got)
		}
		w.wantConverged() // it is no work that is not done
		w.equal("health", "ok: reconciled", w.health.last())
		w.equal("status", reconciler.Done, w.status("short").Kind())
	})
}

func TestManyRowsAreNotAllAppliedAgainAtOnce(t *testing.T) {
	refreshing(t, func(t *testing.T, w *world) {
		var rows []row
		for _, r := range numbered(1000, 1) {
			rows = append(rows, row{ID: "l" + r.ID, Want: 1})
		}
		w.put(rows...)
		w.target.took()
		w.pass(70 * time.Minute)
		at, all := map[time.Time]int{}, 0
		for _, c := range w.target.took() {
			at[c.at.Truncate(time.Second)]++
			all++
		}
		if all < 1000 {
			t.Errorf("only %d rows are applied again", all)
		}
		for second, n := range at {
			if n > 100 {
				t.Errorf("%d rows are applied again at %v", n, second)
			}
		}
	})
}

func TestAChangeRestartsTheRefreshInterval(t *testing.T) {
	refreshing(t, func(_ *testing.T, w *world) {
		for i := range 20 {
			w.put(row{ID: "short", Want: i})
			w.pass(8 * time.Second)
		}
		w.equal("updates", 20, len(w.target.took())-2) // and Init and Observe
		w.equal("updates when nothing changes", 1, w.updatesIn(4 * time.Second)["short"])
	})
}

func TestARefreshFindsWhatIsOutOfSync(t *testing.T) {
	refreshing(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "short", Want: 1})
		w.pass(time.Minute)
		w.target.corrupt("short", 7)
		w.pass(12 * time.Second)
		w.wantTarget(map[string]int{"short": 1})
		w.equal("out of sync", 1, w.metrics().outOfSync)
	})
}

// The time that the target returns for a row overrides the interval of all rows.
func TestATargetThatWantsARowAgainIsAskedForIt(t *testing.T) {
	refreshing(t, func(_ *testing.T, w *world) {
		w.target.will(func(_ context.Context, c call) (result reconciler.Result, _ error) {
			if c.op == "update" {
				result.Again = time.Hour
			}
			return result, nil
		})
		w.put(row{ID: "short", Want: 1})
		w.equal("updates", 0, w.updatesIn(59 * time.Minute)["short"])
		w.equal("updates", 1, w.updatesIn(61 * time.Second)["short"])
	})
}

func TestRefreshesRespectPausesAndEndWithTheRow(t *testing.T) {
	refreshing(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "short", Want: 1}, row{ID: "second", Want: 1})
		w.pause(keys("short"), time.Time{})
		got := w.updatesIn(time.Minute)
		w.equal("updates of a paused row", 0, got["short"])
		w.equal("status of a paused row", reconciler.Done, w.status("short").Kind())
		w.delete("second")
		w.equal("updates of a row that is gone", 0, w.updatesIn(time.Minute)["second"])
		w.resume(keys("short"))
		if n := w.updatesIn(time.Minute)["short"]; n < 5 {
			w.t.Errorf("%d updates of a row that is resumed", n)
		}
	})
}

func TestARefreshIntervalThatPanicsIsIgnored(t *testing.T) {
	refreshing(t, func(t *testing.T, w *world) {
		w.put(row{ID: "panics", Want: 2}, row{ID: "short", Want: 1})
		got := w.updatesIn(time.Minute)
		if got["panics"] != 0 || got["short"] < 5 {
			t.Errorf("updates are %v", got)
		}
		if got := w.health.last(); !strings.Contains(got, "panic: broken") {
			t.Errorf("health is %q, expected what has panicked", got)
		}
	})
}

// Config.Backoff takes the place of MinBackoff and MaxBackoff.
func TestBackoffCanBeReplaced(t *testing.T) {
	prepared(t, func(w *world) {
		w.config.Backoff = func(attempts int) time.Duration { return time.Duration(attempts) * 7 * time.Second }
	}, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.pass(time.Minute)
		w.wantGaps("a", 7*time.Second, 14*time.Second, 21*time.Second)
	})
}

func TestErrorsOverrideAReplacedBackoff(t *testing.T) {
	prepared(t, func(w *world) {
		w.config.Backoff = func(int) time.Duration { return time.Hour }
	}, func(_ *testing.T, w *world) {
		w.target.will(outcomes(reconciler.RetryAfter(time.Second, errBoom), errBoom, reconciler.Terminal(errBoom)))
		w.put(row{ID: "a", Want: 1})
		w.pass(12 * time.Hour)
		w.wantGaps("a", time.Second, time.Hour)
		w.equal("operations", 0, w.updatesIn(time.Hour)["a"])
	})
}

// A user's function must not cause a busy loop, or a panic.
func TestAnInvalidBackoffIsReplacedByTheDefault(t *testing.T) {
	for name, backoff := range map[string]func(int) time.Duration{
		"negative": func(int) time.Duration { return -1 },
		"zero":     func(int) time.Duration { return 0 },
		"panics":   func(int) time.Duration { panic("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			prepared(t, func(w *world) {
				w.config.Backoff = func(attempts int) time.Duration {
					asked++
					return backoff(attempts)
				}
			}, func(t *testing.T, w *world) {
				w.target.will(failing("a"))
				w.put(row{ID: "a", Want: 1})
				// The default backoff applies.
				if n := w.updatesIn(time.Minute)["a"]; n == 0 || n > 15 {
					t.Errorf("%d updates in a minute", n)
				}
				if asked == 0 {
					t.Error("the backoff function was not called")
				}
				w.target.will(nil)
				w.pass(2 * time.Minute)
				w.wantConverged()
			})
		})
	}
}

func TestBackoffExcludesItsBounds(t *testing.T) {
	w := newWorld(t)
	p := reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: observing{w.target}}
	p.Config.Backoff, p.Config.MinBackoff = func(int) time.Duration { return time.Second }, time.Second
	if _, err := reconciler.New(p); err == nil || !strings.Contains(err.Error(), "Config.MinBackoff is 1s: it has no effect because Config.Backoff replaces it") {
		t.Errorf("the error is %v", err)
	}
}

// A reconciler that starts with rows that are done applies them in their time too.
func TestRowsThatAreDoneAtTheStartAreAppliedAgain(t *testing.T) {
	refreshing(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "short", Want: 1}, row{ID: "never", Want: 1})
		w.stop()
		w.start()
		got := w.updatesIn(time.Minute)
		if got["short"] < 5 || got["never"] != 0 {
			w.t.Errorf("updates are %v", got)
		}
	})
}

// Rows that are done and wait for their time are no work that is put off, and those
// without such a time are not kept.
func TestRowsWithoutARefreshIntervalCostNothing(t *testing.T) {
	refreshing(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "long", Want: 1}, row{ID: "never", Want: 1})
		w.equal("items", 1, len(w.r.Items()))
		w.equal("delayed", 0, w.r.Stats().Delayed)
		w.check(w.r.WaitTable(w.t.Context()))
		explanation := must(w.r.Explain(w.t.Context(), "long"))
		w.equal("cause", "refresh", explanation.WaitsFor[0].Cause)
		w.delete("long")
		w.equal("items", 0, len(w.r.Items()))
	})
}

// What no longer panics is refreshed, and nothing is said of a row that is gone.
func TestHealthForgetsARefreshIntervalThatPanicked(t *testing.T) {
	refreshing(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "panics", Want: 2}, row{ID: "panics too", Want: 2})
		w.put(row{ID: "panics", Want: 1})
		if got := w.health.last(); !strings.Contains(got, "refresh interval of panics too: panic: broken") {
			w.t.Errorf("health is %q", got)
		}
		w.delete("panics too")
		w.equal("health", "ok: reconciled", w.health.last())
	})
}
