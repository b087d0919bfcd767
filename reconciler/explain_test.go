package reconciler_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func (w *world) explain(key string) reconciler.Explanation {
	w.t.Helper()
	e, err := w.r.Explain(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// after is a time from the start of a bubble on, as texts have it.
func after(d time.Duration) string {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Local().Format(time.RFC3339)
}

// slowly makes operations on some rows last an hour, whatever their context.
func slowly(ids ...string) behavior {
	return func(_ context.Context, c call) (reconciler.Result, error) {
		for _, id := range ids {
			if c.id == id {
				take(time.Hour)
			}
		}
		return reconciler.Result{}, nil
	}
}

// cause is a reason for which the row "a" is not done, and how it is named.
type cause struct {
	prepare func(*world) // before the start
	make    func(*world)
	want    []string // cause and text of what is waited for
}

func causes() map[string]cause {
	put := func(w *world) { w.put(row{ID: "a", Want: 1}) }
	hour := func(w *world) { w.config.OperationTimeout = 2 * time.Hour }
	fails := func(err error) func(*world) {
		return func(w *world) {
			w.target.will(outcomes(err))
			put(w)
		}
	}
	return map[string]cause{
		"nothing": {make: put, want: []string{"nothing: nothing: it is done"}},
		"others": {prepare: hour, make: func(w *world) {
			w.target.will(slowly("0"))
			w.put(row{ID: "0"})
			w.pass(time.Second)
			w.put(row{ID: "1"}, row{ID: "2"}, row{ID: "a"})
			w.pass(time.Second)
		}, want: []string{"turn: its turn: 2 before it in class change"}},
		"being applied": {prepare: hour, make: func(w *world) {
			w.target.will(slowly("a"))
			put(w)
			w.pass(time.Minute)
		}, want: []string{"running: update has been running since " + after(0)}},
		"an operation that is stuck": {make: func(w *world) {
			w.target.will(slowly("a"))
			put(w)
			w.pass(time.Minute)
		}, want: []string{"stuck: update has been stuck since " + after(0) + ": it has not returned, although its context has ended"}},
		"backoff":          {make: fails(reconciler.RetryAfter(time.Hour, errBoom)), want: []string{"backoff: backoff: until " + after(time.Hour)}},
		"a terminal error": {make: fails(reconciler.Terminal(errBoom)), want: []string{"terminal: terminal error: a new spec or a full pass"}},
		"the wish of its target": {make: func(w *world) {
			w.target.will(outcomes(reconciler.Result{Again: time.Hour}))
			put(w)
		}, want: []string{"again: until " + after(time.Hour) + ", when it is applied again as its target requested"}},
		"debounce": {prepare: func(w *world) { w.config.Debounce = time.Minute }, make: put, want: []string{
			"debounce: debounce: until " + after(time.Minute) + ", or longer if the row changes before then",
		}},
		"the rate limit": {prepare: func(w *world) { w.config.Limits.Limiter = rate.NewLimiter(0.001, 1) }, make: func(w *world) {
			w.put(row{ID: "0"})
			put(w)
		}, want: []string{"rate: the rate limit of 0.001 operations per second", "turn: its turn: 0 before it in class change"}},
		"a pause with an end": {make: func(w *world) {
			w.check(w.r.Pause(w.t.Context(), reconciler.Selector[row]{}, time.Now().Add(time.Minute)))
			put(w)
		}, want: []string{"paused: paused: until " + after(time.Minute)}},
		"a pause without one": {make: func(w *world) {
			w.check(w.r.Pause(w.t.Context(), reconciler.Selector[row]{Keys: []string{"a"}}, time.Time{}))
			put(w)
		}, want: []string{"paused: paused: until it is resumed"}},
		"nothing, but it is paused": {make: func(w *world) {
			put(w)
			w.check(w.r.Pause(w.t.Context(), reconciler.Selector[row]{}, time.Time{}))
		}, want: []string{"nothing: nothing: it is done", "paused: paused: its next change waits until it is resumed"}},
		"sources": {prepare: func(w *world) {
			w.source("files")
			w.source("network")
		}, make: put, want: []string{"sources: waiting for sources: files, network"}},
		"sources that came while it ran": {make: func(w *world) {
			w.source("files")
			put(w)
		}, want: []string{"sources: waiting for sources: files", "turn: its turn: the change has not been read yet"}},
		"the target": {prepare: func(w *world) { w.target.will(failing("\x00init")) }, make: put, want: []string{
			"target: the target, which is not ready: boom",
		}},
		"pruning": {prepare: func(w *world) {
			w.prunes = true
			hour(w)
		}, make: func(w *world) {
			w.pass(time.Second)
			w.target.will(slowly(""))
			w.fullPass()
			put(w)
		}, want: []string{"prune: the target to be pruned: nothing else runs meanwhile", "turn: its turn: 0 before it in class change"}},
		"the end of the reconciler": {make: func(w *world) {
			fails(reconciler.RetryAfter(time.Hour, errBoom))(w)
			w.stop()
		}, want: []string{"stopped: the reconciler has stopped", "error: backoff: until " + after(time.Hour)}},
		"the limit of deletes": {prepare: func(w *world) { w.config.DeleteLimit.Rows = 1 }, make: func(w *world) {
			w.put(row{ID: "a"}, row{ID: "b"}, row{ID: "c"})
			w.delete("a", "b", "c")
		}, want: []string{
			"limit: limit: until its delete is approved: more than 1 rows and 30 % of the table within 1m0s; it is part of plan PLAN",
		}},
		"a delete that failed": {make: func(w *world) {
			put(w)
			w.target.will(outcomes(reconciler.RetryAfter(time.Hour, errBoom)))
			w.delete("a")
		}, want: []string{"backoff: backoff: until " + after(time.Hour)}},
	}
}

// planID is of what is held, or a text that is nowhere.
func (w *world) planID() string {
	if plan, err := w.r.Plan(w.t.Context()); err == nil && plan.ID != "" {
		return plan.ID
	}
	return "\x00"
}

func TestExplainNamesWhatARowWaitsFor(t *testing.T) {
	for name, c := range causes() {
		t.Run(name, func(t *testing.T) {
			if c.prepare == nil {
				c.prepare = func(*world) {}
			}
			prepared(t, c.prepare, func(t *testing.T, w *world) {
				c.make(w)
				e := w.explain("a")
				var got []string
				for _, wait := range e.WaitsFor {
					got = append(got, wait.Cause+": "+strings.ReplaceAll(wait.Text, w.planID(), "PLAN"))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("causes (-want +got):\n%s\n%v", diff, e)
				}
				w.target.will(nil)
				w.pass(3 * time.Hour)
			})
		})
	}
}

func TestExplainSaysAllThatIsKnownOfARow(t *testing.T) {
	prepared(t, func(w *world) {
		w.origin = func(table, key string) string { return "/etc/" + table + ".yaml:" + key }
	}, func(t *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.pass(200 * time.Millisecond) // the first retry is after 80 to 120 ms, the second 160 to 240 ms later
		e := w.explain("a")
		if len(e.LastAttempts) != 2 || e.Attempts != 2 || e.LastAttempts[1].Reasons != "retry" || e.LastAttempts[0].Error != "boom" {
			t.Errorf("attempts: %+v", e)
		}
		_, rev, _ := w.table.Get(w.db.ReadTxn(), byID.Query("a"))
		if !e.Exists || !e.Queued || e.Spec == 0 || e.Spec >= rev || e.NextDue.IsZero() || e.Origin != "/etc/rows.yaml:a" {
			t.Errorf("got %+v", e)
		}
		text := e.String()
		for _, want := range []string{
			"row:          rows a\n", "status:       error since 2000-01-01", ": boom\n", "written by:   /etc/rows.yaml:a\n",
			"queued:       yes, because of retry", "waits for:    backoff: until 2000-01-01", "failed:       2 in a row\n",
			" update took 0s (change): boom\n", " update took 0s (retry): boom\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("text has no %q:\n%s", want, text)
			}
		}
		data, err := json.Marshal(e)
		var back reconciler.Explanation
		if err := errors.Join(err, json.Unmarshal(data, &back)); err != nil || back.String() != text {
			t.Errorf("%v; came back as\n%v", err, back)
		}
	})
}

func TestExplainTellsWhoMayHaveWrittenARow(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(row{ID: "a"})
		for i, want := range []string{
			"written by:   no source: the table has none\n",
			"written by:   unknown; the table's source is one\n",
			"written by:   unknown; the table's sources are one, two\n",
		} {
			if text := w.explain("a").String(); !strings.Contains(text, want) {
				t.Errorf("text has no %q:\n%s", want, text)
			}
			w.source([]string{"one", "two", "three"}[i])
		}
	})
}

func TestExplainNamesKeysLikeOneThatThereIsNot(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		_, err := w.r.Explain(t.Context(), "x")
		w.equal("of an empty table", `table rows: key "x": no such row`, err.Error())
		w.put(row{ID: "eth0"}, row{ID: "eth1"}, row{ID: "lo"})
		w.target.will(failing("eth2"))
		w.put(row{ID: "eth2"})
		w.delete("eth2")
		_, err = w.r.Explain(t.Context(), "eth")
		w.equal("error", `table rows: key "eth": no such row; similar keys: eth0, eth1, eth2`, err.Error())
		if !errors.Is(err, statedb.ErrNotFound) {
			t.Errorf("%v is not ErrNotFound", err)
		}
	})
}

func TestExplainSaysThatARowMayBeMissing(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		source := w.source("files")
		w.update(func(txn *statedb.WriteTxn) error {
			return errors.Join(source.Initialized(txn), source.Incomplete(txn, "a.yaml is broken"))
		})
		_, err := w.r.Explain(t.Context(), "old")
		w.equal("error", `table rows: key "old": no such row; removal of orphans is held: files: a.yaml is broken`, err.Error())
	})
}

func TestExplainOfAFailedDeleteWorksAfterTheEnd(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(row{ID: "a"})
		w.target.will(failing("a"))
		w.delete("a")
		w.stop()
		if e := w.explain("a"); e.Exists || e.LastError != "boom" || e.Attempts != 1 || e.WaitsFor[0].Cause != "stopped" {
			t.Errorf("got %v", e)
		}
		if _, err := w.r.Explain(t.Context(), "b"); !errors.Is(err, statedb.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

func TestExplainChangesNothing(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		for i := range 50 {
			w.write(row{ID: string(rune('a' + i%26)), Want: i})
			_, err := w.r.Explain(t.Context(), string(rune('a'+i%26)))
			w.check(err)
		}
		w.pass(time.Second)
		w.wantConverged()
	})
}
