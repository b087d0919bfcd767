package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// asked is a wait under way.
type asked struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// ask waits in another goroutine.
func ask(w *world, wait func(ctx context.Context) error) *asked {
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	a := &asked{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		a.err = wait(ctx)
	}()
	synctest.Wait()
	return a
}

func (w *world) askRow(id string) *asked {
	return ask(w, func(ctx context.Context) error { return w.r.WaitRow(ctx, row{ID: id}) })
}

func (w *world) askTable() *asked {
	return ask(w, func(ctx context.Context) error { return w.r.WaitTable(ctx) })
}

func (a *asked) String() string {
	select {
	case <-a.ended:
		return fmt.Sprint(a.err)
	default:
		return "waiting"
	}
}

func (w *world) wantAsked(want string, asked ...*asked) {
	w.t.Helper()
	synctest.Wait()
	for i, a := range asked {
		if got := a.String(); got != want {
			w.t.Errorf("wait %d: got %q, want %q", i, got, want)
		}
	}
}

// takeASecond makes operations take a second.
func takeASecond(context.Context, call) (reconciler.Result, error) {
	take(time.Second)
	return reconciler.Result{}, nil
}

func TestWaitingEndsWithTheStatus(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.will(takeASecond)
		w.wantAsked("<nil>", w.askTable(), w.askRow("a"), w.askRow("never was"))
		w.put(row{ID: "a", Want: 2}, row{ID: "b", Want: 1})
		before := w.table.Revision(w.db.ReadTxn())
		all, a, b := w.askTable(), w.askRow("a"), w.askRow("b")
		w.pass(500 * time.Millisecond)
		w.wantAsked("waiting", all, a, b)
		w.pass(600 * time.Millisecond)
		w.wantAsked("<nil>", a)
		w.wantStatus("a", "done")
		w.wantAsked("waiting", all, b)
		w.pass(time.Second)
		w.wantAsked("<nil>", all, b)
		w.wantStatus("b", "done")
		w.wantAsked("<nil>", ask(w, func(ctx context.Context) error { return w.r.WaitRevision(ctx, before) }))
		future := ask(w, func(ctx context.Context) error {
			return w.r.WaitRevision(ctx, w.table.Revision(w.db.ReadTxn())+1)
		})
		w.wantAsked("waiting", future)
		w.put(row{ID: "c", Want: 1})
		w.pass(2 * time.Second)
		w.wantAsked("<nil>", future)
	})
}

func TestWaitingForADeleteEndsWhenItIsGoneFromTheTarget(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.target.will(takeASecond)
		w.delete("a")
		all, gone, other := w.askTable(), w.askRow("a"), w.askRow("b")
		w.wantAsked("waiting", all, gone)
		w.wantAsked("<nil>", other)
		w.pass(time.Second)
		w.wantAsked("<nil>", all, gone)
		w.wantTarget(map[string]int{"b": 1})
	})
}

// lasting makes operations take a time.
func lasting(d time.Duration) behavior {
	return func(context.Context, call) (reconciler.Result, error) {
		take(d)
		return reconciler.Result{}, nil
	}
}

// Operations are within the time of a round, or not.
var durations = []time.Duration{2 * time.Millisecond, time.Second}

func TestWaitingForARowThatIsDeletedWhileBeingAppliedEndsWhenItIsGone(t *testing.T) {
	for _, takes := range durations {
		running(t, func(_ *testing.T, w *world) {
			w.target.will(lasting(takes))
			w.put(row{ID: "a", Want: 1})
			a := w.askRow("a")
			w.pass(takes / 2)
			w.delete("a")
			again := w.askRow("a")
			w.pass(takes/2 + takes/10) // the update has ended
			w.wantAsked("waiting", a, again)
			w.pass(takes)
			w.wantAsked("<nil>", a, again)
			w.wantTarget(map[string]int{})
		})
	}
}

func TestWaitingIsForTheSpecOfThenOrALaterOne(t *testing.T) {
	for _, takes := range durations {
		running(t, func(_ *testing.T, w *world) {
			w.target.will(lasting(takes))
			w.put(row{ID: "a", Want: 1})
			a, all := w.askRow("a"), w.askTable()
			w.pass(takes / 2)
			w.put(row{ID: "a", Want: 2})
			w.pass(takes/2 + takes/10) // an outcome that counts for nothing
			w.wantStatus("a", "pending")
			w.wantAsked("waiting", a, all)
			w.pass(takes)
			w.wantAsked("<nil>", a, all)
			w.wantTarget(map[string]int{"a": 2})
		})
	}
}

func TestWaitingFailsWhenAllHaveBeenTriedAndSucceedsOnceRepaired(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(row{ID: "gone", Want: 1})
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			take(time.Second)
			if c.id == "bad" || c.id == "gone" {
				return reconciler.Result{}, fmt.Errorf("%s: %w", c.id, errBoom)
			}
			return reconciler.Result{}, nil
		})
		w.write(row{ID: "bad", Want: 1}, row{ID: "good", Want: 1})
		w.delete("gone")
		all, bad, good := w.askTable(), w.askRow("bad"), w.askRow("good")
		w.wantAsked("waiting", all, bad, good)
		<-bad.ended
		w.wantAsked("reconciler rows: update bad: bad: boom", bad)
		<-good.ended
		w.wantAsked("<nil>", good)
		<-all.ended
		var failed *reconciler.FailedError
		if !errors.As(all.err, &failed) || !errors.Is(all.err, errBoom) {
			t.Fatalf("got %v", all.err)
		}
		w.equal("failed", []string{"update bad", "delete gone"}, []string{
			failed.Rows[0].Operation + " " + failed.Rows[0].Key, failed.Rows[1].Operation + " " + failed.Rows[1].Key,
		})
		w.target.will(takeASecond)
		w.put(row{ID: "bad", Want: 2})
		if n, err := w.r.Trigger(t.Context(), reconciler.Selector[row]{}); n != 3 || err != nil {
			t.Errorf("Trigger: %d, %v", n, err)
		}
		all, bad = w.askTable(), w.askRow("bad")
		w.wantAsked("waiting", all, bad)
		w.pass(10 * time.Second)
		w.wantAsked("<nil>", all, bad)
		w.wantTarget(map[string]int{"bad": 2, "good": 1})
	})
}

func TestWaitingForARowThatARefreshFailedOnFails(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			return reconciler.Result{}, reconciler.Terminal(errBoom)
		})
		w.fullPass()
		w.wantAsked("reconciler rows: update a: boom", w.askTable(), w.askRow("a"))
		w.target.will(nil)
		w.fullPass()
		w.wantAsked("<nil>", w.askTable(), w.askRow("a"))
	})
}

func TestWaitingForWhatIsPausedGoesOnUntilItsContextEnds(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		pause := func() {
			if err := w.r.Pause(t.Context(), reconciler.Selector[row]{}, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		pause()
		w.put(row{ID: "a", Want: 1})
		all, a, impatient := w.askTable(), w.askRow("a"), w.askRow("a")
		w.pass(time.Hour)
		w.wantAsked("waiting", all, a, impatient)
		impatient.cancel()
		w.wantAsked("context canceled", impatient)
		if err := w.r.Resume(t.Context(), reconciler.Selector[row]{}); err != nil {
			t.Fatal(err)
		}
		w.wantAsked("<nil>", all, a)
	})
}

func TestWaitingIsForAReconcilerThatRunsOrWill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.write(row{ID: "a", Want: 1})
		r := must(reconciler.New(reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: observing{w.target}}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.WaitTable(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before Run: %v", err)
		}
		soon := ask(w, r.WaitTable)
		w.wantAsked("waiting", soon)
		running, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(running) }()
		w.wantAsked("<nil>", soon)
		stop()
		w.check(<-ended)
		files := w.source("files")
		w.start()
		early := w.askTable() // the sources are waited for
		w.pass(time.Hour)
		w.wantAsked("waiting", early)
		w.update(files.Initialized)
		w.wantAsked("<nil>", early)
		w.target.will(takeASecond)
		w.put(row{ID: "a", Want: 2})
		all, a := w.askTable(), w.askRow("a")
		w.cancel()
		synctest.Wait()
		w.wantAsked(reconciler.ErrNotRunning.Error(), all, a, w.askTable())
		w.stop()
		w.wantAsked(reconciler.ErrNotRunning.Error(), w.askTable())
	})
}

func TestWaitingAfterAStartIsForWhatWasDeletedBefore(t *testing.T) {
	prepared(t, func(w *world) {
		w.target.corrupt("old", 1)
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			if c.op == "observe" {
				return reconciler.Result{}, errBoom
			}
			return takeASecond(ctx, c)
		})
	}, func(t *testing.T, w *world) {
		all, old := w.askTable(), w.askRow("old")
		w.pass(2 * time.Second)
		w.wantAsked("reconciler rows: orphans: boom", all, old)
		if !errors.Is(all.err, errBoom) {
			t.Errorf("got %v", all.err)
		}
		w.target.will(takeASecond)
		w.pass(100 * time.Millisecond)
		// No more than a backoff until it is tried again.
		for range 60 {
			w.pass(time.Second)
		}
		w.wantAsked("<nil>", w.askTable(), w.askRow("old"))
		w.wantTarget(map[string]int{})
	})
}

func TestWaitingAmongConcurrentWritersTellsTheTruth(t *testing.T) {
	prepared(t, func(w *world) {
		w.config.Workers, w.config.Limits.RoundSize = 3, 4
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			take(time.Duration(1+c.want%7) * time.Millisecond)
			return reconciler.Result{}, nil
		})
	}, func(t *testing.T, w *world) {
		var writers sync.WaitGroup
		for i := range 8 {
			writers.Go(func() { writeAndWait(w, i) })
		}
		writers.Wait()
		if err := w.r.WaitTable(t.Context()); err != nil {
			t.Error(err)
		}
		w.wantConverged()
	})
}

// writeAndWait writes rows that only it writes, with numbers that rise, among
// others that all write, and looks at the target after each wait.
func writeAndWait(w *world, writer int) {
	own := fmt.Sprint("own", writer)
	for want := 1; want <= 100; want++ {
		take(time.Duration(want*(writer+3)%11) * time.Millisecond)
		w.update(func(txn *statedb.WriteTxn) error {
			_, _, err := w.table.Insert(txn, row{ID: fmt.Sprint("shared", want%3), Want: writer*1000 + want})
			if err == nil && want%5 == 0 {
				_, _, err = w.table.Delete(txn, row{ID: own})
			} else if err == nil {
				_, _, err = w.table.Insert(txn, row{ID: own, Want: want})
			}
			return err
		})
		wait := w.r.WaitTable
		if want%2 == 0 {
			wait = func(ctx context.Context) error { return w.r.WaitRow(ctx, row{ID: own}) }
		}
		if err := wait(context.Background()); err != nil {
			w.t.Errorf("%s=%d: %v", own, want, err)
			return
		}
		is, there := w.target.state()[own]
		if want%5 == 0 && there || want%5 != 0 && is != want {
			w.t.Errorf("%s is %d (%t), want %d", own, is, there, want)
		}
	}
}

func TestThousandsMayWait(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(takeASecond)
		w.put(row{ID: "a", Want: 1})
		var all []*asked
		ctx := t.Context()
		for i := range 5000 {
			a := &asked{ended: make(chan struct{})}
			all = append(all, a)
			go func() {
				defer close(a.ended)
				if a.err = w.r.WaitRow(ctx, row{ID: "a"}); i%2 == 0 {
					a.err = w.r.WaitTable(ctx)
				}
			}()
		}
		w.wantAsked("waiting", all...)
		w.pass(1100 * time.Millisecond)
		w.wantAsked("<nil>", all...)
	})
}

func TestWhoStopsWaitingIsForgotten(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(takeASecond)
		w.put(row{ID: "a", Want: 1})
		a, all := w.askRow("a"), w.askTable()
		w.equal("waiting", 2, w.r.Waiting())
		future := ask(w, func(ctx context.Context) error { return w.r.WaitRevision(ctx, 1<<40) })
		w.equal("waiting", 3, w.r.Waiting())
		a.cancel()
		future.cancel()
		all.cancel()
		w.wantAsked("context canceled", a, future, all)
		w.equal("waiting", 0, w.r.Waiting())
	})
}
