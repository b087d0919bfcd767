package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// hold locks tables until the returned function is called, which may write
// something before that, and the test ends.
func (w *world) hold(tables ...statedb.TableMeta) (release func(write func(txn *statedb.WriteTxn))) {
	w.t.Helper()
	txn := must(w.db.WriteTxn(w.t.Context(), tables...))
	released := false
	release = func(write func(*statedb.WriteTxn)) {
		if released {
			return
		}
		released = true
		if write == nil {
			txn.Abort()
		} else {
			write(txn)
			must(txn.Commit())
		}
		synctest.Wait()
	}
	w.t.Cleanup(func() { release(nil) })
	return release
}

// within calls fn, which has to return within virtual time d.
func within(t *testing.T, what string, d time.Duration, fn func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := fn(ctx); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// endedWithin returns what Run returned, which has to be within d after its
// context has ended.
func (w *world) endedWithin(d time.Duration, release func(func(*statedb.WriteTxn))) error {
	w.t.Helper()
	w.cancel()
	select {
	case err := <-w.ended:
		w.ended = nil
		return err
	case <-time.After(d + time.Millisecond):
		w.t.Errorf("Run has not returned %v after the end of its context", d)
		release(nil)
		err := <-w.ended
		w.ended = nil
		return err
	}
}

// briefly is a world whose reconciler stops soon: what it may take, all in all, is
// the second result.
func briefly(w *world) (limit time.Duration) {
	w.config.OperationTimeout, w.config.StopTimeout = time.Second, 2*time.Second
	// The context of an operation ends with StopTimeout at the latest, and then it
	// has as long as OperationTimeout to heed that.
	return w.config.StopTimeout + w.config.OperationTimeout
}

func TestStopIsBoundedAlthoughSomebodyHoldsATable(t *testing.T) {
	for name, test := range map[string]struct {
		held func(w *world) []statedb.TableMeta
		want string // in the error
		// before is what happens while the table is held, before the stop.
		before func(w *world)
	}{
		"a status has just come": {
			held:   func(w *world) []statedb.TableMeta { return []statedb.TableMeta{w.table} },
			want:   "rows",
			before: func(w *world) { w.pass(1500 * time.Millisecond) },
		},
		"a status has waited for long": {
			held:   func(w *world) []statedb.TableMeta { return []statedb.TableMeta{w.table} },
			want:   "rows",
			before: func(w *world) { w.pass(time.Hour) },
		},
		"an operation is still running": {
			held:   func(w *world) []statedb.TableMeta { return []statedb.TableMeta{w.table} },
			want:   "rows",
			before: func(w *world) { w.pass(500 * time.Millisecond) },
		},
		"the not-done table cannot be written": {
			held:   func(w *world) []statedb.TableMeta { return []statedb.TableMeta{w.notDone} },
			want:   "not-done",
			before: func(w *world) { w.pass(time.Hour) },
		},
		"both are held": {
			held:   func(w *world) []statedb.TableMeta { return []statedb.TableMeta{w.table, w.notDone} },
			want:   "rows",
			before: func(w *world) { w.pass(time.Minute) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				limit := briefly(w)
				w.start()
				w.target.will(func(context.Context, call) (reconciler.Result, error) {
					take(900 * time.Millisecond)
					return reconciler.Result{}, reconciler.RetryAfter(24*time.Hour, errBoom)
				})
				w.put(row{ID: "a", Want: 1})
				release := w.hold(test.held(w)...)
				test.before(w)
				err := w.endedWithin(limit, release)
				if err == nil || !strings.Contains(err.Error(), "table "+test.want) {
					t.Errorf("the error is %v, expected that table %s is held", err, test.want)
				}
				if got := w.health.last(); !strings.HasPrefix(got, "stopped: ") || !strings.Contains(got, "table "+test.want) {
					t.Errorf("health is %q, expected that table %s is held", got, test.want)
				}
				release(nil)
				w.wantKnownMoves()
			})
		})
	}
}

// The error has the rows whose statuses were lost, or how many these are: they are
// applied once more by the next run.
func TestStopNamesTheRowsWhoseStatusesAreNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limit := briefly(w)
		w.start()
		w.target.will(lasting(900 * time.Millisecond))
		w.put(row{ID: "a", Want: 1})
		release := w.hold(w.table)
		w.pass(time.Minute)
		err := w.endedWithin(limit, release)
		var status *reconciler.StatusError
		if !errors.As(err, &status) {
			t.Fatalf("%v is no StatusError", err)
		}
		if !strings.Contains(err.Error(), "write status: of a: table rows") {
			t.Errorf("%v does not name the row", err)
		}
		release(nil)
		w.wantStatus("a", "pending")
	})
}

// The holder of a table is known once someone has waited for the table.
func TestStopNamesWhoHoldsTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limit := briefly(w)
		w.start()
		first := w.hold(w.table)
		go w.write(row{ID: "a", Want: 1}) // waits for it
		synctest.Wait()
		first(nil)
		w.target.will(lasting(900 * time.Millisecond))
		w.put(row{ID: "b", Want: 1})
		release := w.hold(w.table)
		w.pass(time.Minute)
		if err := w.endedWithin(limit, release); err == nil || !strings.Contains(err.Error(), "(*world).hold") {
			t.Errorf("%v does not name the function that holds the table", err)
		}
		release(nil)
	})
}

// A stop waits for a table as long as it waits for operations.
func TestStopWritesStatusesIfTheTableIsFreeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limit := briefly(w)
		w.start()
		w.target.will(lasting(900 * time.Millisecond))
		w.put(row{ID: "a", Want: 1})
		release := w.hold(w.table)
		w.pass(time.Minute)
		time.AfterFunc(time.Second, func() { release(nil) })
		if err := w.endedWithin(limit, release); err != nil {
			t.Error(err)
		}
		w.wantStatus("a", "done")
	})
}

func TestStopWithoutAnythingToWriteDoesNotWaitForATable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		briefly(w)
		w.start()
		w.put(row{ID: "a", Want: 1})
		w.pass(time.Minute)
		release := w.hold(w.table, w.notDone)
		w.pass(time.Minute)
		if err := w.endedWithin(time.Millisecond, release); err != nil {
			t.Error(err)
		}
		release(nil)
	})
}

// Both an operation and a table keep the reconciler from its end.
func TestStopNamesWhatIsStuckAndWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limit := briefly(w)
		w.config.Workers = 2
		w.start()
		free := make(chan struct{})
		w.target.will(ignoring(free, "a"))
		release := w.holdAfter(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.pass(time.Minute)
		err := w.endedWithin(limit, release)
		var stuck *reconciler.StuckError
		if !errors.As(err, &stuck) {
			t.Errorf("%v is no StuckError", err)
		}
		for _, want := range []string{"update a", "table rows"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not name %q", err, want)
			}
		}
		close(free)
		release(nil)
	})
}

// holdAfter writes rows and holds their table before the reconciler has been able
// to write anything.
func (w *world) holdAfter(rows ...row) (release func(func(*statedb.WriteTxn))) {
	w.t.Helper()
	act := w.target.behavior()
	gate := make(chan struct{})
	w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
		<-gate
		if act == nil {
			return reconciler.Result{}, nil
		}
		return act(ctx, c)
	})
	w.put(rows...)
	release = w.hold(w.table)
	w.target.will(act)
	close(gate)
	synctest.Wait()
	return release
}

// A listing changes nothing, so a stop does not wait until it ends by itself.
func TestStopEndsAListingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.FullInterval, w.config.OperationTimeout = time.Hour, time.Hour
		w.start()
		var cause error
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			if c.op == "observe" {
				<-ctx.Done()
				cause = context.Cause(ctx)
			}
			return reconciler.Result{}, ctx.Err()
		})
		w.pass(70 * time.Minute) // the interval is spread by a tenth
		if err := w.endedWithin(0, func(func(*statedb.WriteTxn)) {}); err != nil || fmt.Sprint(cause) != "reconciler stops" {
			t.Errorf("Run returned %v, the listing ended because of %v", err, cause)
		}
	})
}
