package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
)

func TestManyDoubtsMakeFewListings(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		for i := range 1000 {
			k.set("a", 2+i)
			k.doubt()
			pass(time.Millisecond)
		}
		pass(longest)
		k.want(map[string]int{"a": 1001, "b": 1})
		if k.listings > 52 {
			t.Errorf("%d listings within a second", k.listings)
		}
	})
}

func TestNotificationsThatWereLostMakeAListing(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		lost := 0
		k.mirror.config.Lost = func() { lost++ }
		start()
		k.set("a", 2)
		k.set("b", 0)
		k.open.put(result{err: syscall.ENOBUFS})
		synctest.Wait()
		k.wantSource(true, "it is about to be listed again: notifications of the kernel were lost")
		k.want(map[string]int{"a": 1, "b": 1})
		pass(longest)
		k.want(map[string]int{"a": 2})
		k.wantSource(true, "")
		if lost != 1 {
			t.Errorf("told %d times that notifications were lost", lost)
		}
		if k.subscriptions != 1 {
			t.Errorf("%d subscriptions, expected to go on with the first", k.subscriptions)
		}
	})
}

func TestMoreNotificationsThanFitAreLost(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		texts := make([]string, maxPending+1)
		for i := range texts {
			texts[i] = "a 3"
		}
		k.send(texts...)
		synctest.Wait()
		k.wantSource(true, "it is about to be listed again: notifications of the kernel were lost")
		pass(longest)
		k.want(map[string]int{"a": 1, "b": 1})
		k.wantSource(true, "")
	})
}

func TestAfterAFaultTheTableIsIncompleteUntilItIsListedAgain(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		cause  func(k *kernel)
		mend   func(k *kernel)
		reason string
	}{
		"of the subscription": {
			func(k *kernel) { k.open.put(result{err: broken}) }, func(*kernel) {}, "receive notifications: broken",
		},
		"of several": {
			func(k *kernel) {
				k.change(func() { k.refused = broken })
				k.open.put(result{err: errors.New("first")})
				pass(10 * retryDelay)
			},
			func(k *kernel) { k.change(func() { k.refused = nil }) }, "subscribe to changes: broken",
		},
		"of a listing": {
			func(k *kernel) {
				k.change(func() { k.listErr = broken })
				k.doubt()
				pass(longest)
			},
			func(k *kernel) { k.change(func() { k.listErr = nil }) }, "broken",
		},
	} {
		t.Run(name, func(t *testing.T) {
			mirrored(t, func(t *testing.T, k *kernel, start func()) {
				start()
				pass(time.Second)
				c.cause(k)
				synctest.Wait()
				k.wantSource(true, c.reason)
				k.want(map[string]int{"a": 1, "b": 1})
				if k.mirror.View(t.Context()).Reliable() {
					t.Error("View relies on the table")
				}
				c.mend(k)
				k.set("a", 2)
				k.set("b", 0) // and nobody tells
				pass(2 * retryDelay)
				k.want(map[string]int{"a": 2})
				k.wantSource(true, "")
				if last := k.told[len(k.told)-1]; last != "ok: up to date" || !slices.Contains(k.told, "degraded: not up to date: "+c.reason) {
					t.Errorf("health was told %q", k.told)
				}
				k.tell("a", 3)
				k.want(map[string]int{"a": 3})
			})
		})
	}
}

func TestWhatIsReceivedDuringAListingIsApplied(t *testing.T) {
	mirrored(t, func(_ *testing.T, k *kernel, start func()) {
		start()
		list := k.mirror.config.List
		k.mirror.config.List = func(ctx context.Context, drain func() error) ([]thing, error) {
			rows, err := list(ctx, drain)
			if k.mirror.config.List = list; err == nil {
				k.send("a 5")
			}
			return rows, err
		}
		k.doubt()
		pass(longest)
		k.want(map[string]int{"a": 5, "b": 1})
	})
}

// What Apply knows comes from List, so it must not be called before a listing of the
// same subscription, nor after one that failed.
func TestNothingIsAppliedBeforeAListing(t *testing.T) {
	for range 30 { // what is ready first differs
		mirrored(t, func(t *testing.T, k *kernel, start func()) {
			listed := false
			subscribe, list, apply := k.mirror.config.Subscribe, k.mirror.config.List, k.mirror.config.Apply
			k.mirror.config.Subscribe = func() (Subscription, error) {
				s, err := subscribe()
				listed = false
				k.send("a 7")
				return s, err
			}
			k.mirror.config.List = func(ctx context.Context, drain func() error) ([]thing, error) {
				time.Sleep(time.Millisecond)
				rows, err := list(ctx, drain)
				listed = err == nil
				return rows, err
			}
			k.mirror.config.Apply = func(txn *statedb.WriteTxn, e event) (string, error) {
				if !listed {
					t.Error("applied before a listing")
				}
				return apply(txn, e)
			}
			k.listErr = errors.New("interrupted")
			start()
			pass(time.Millisecond)
			k.change(func() { k.listErr = nil })
			pass(2 * retryDelay)
			k.wantSource(true, "")
			k.want(map[string]int{"a": 1, "b": 1})
			k.tell("a", 3)
			k.want(map[string]int{"a": 3, "b": 1})
		})
	}
}

func TestItEndsWhileItWaits(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		k.refused = errors.New("no more sockets")
		start()
		k.want(map[string]int{})
		k.wantSource(false, "subscribe to changes: no more sockets")
		if k.mirror.View(t.Context()).Reliable() {
			t.Error("View relies on the table")
		}
	})
}

func TestAViewSeesAllThatHasHappened(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		synced := make(chan bool, 1)
		go func() {
			synced <- k.mirror.View(t.Context()).Reliable()
		}()
		synctest.Wait()
		if len(synced) > 0 {
			t.Fatal("View does not wait for the first listing")
		}
		start()
		if !<-synced {
			t.Error("View does not rely on the table after the first listing")
		}
		for i := range 100 {
			k.send(fmt.Sprintf("a %d", i+2)) // and at once
			if row, _ := k.mirror.View(t.Context()).Get(k.table.KeyQuery(thing{Name: "a"})); row.Size != i+2 {
				t.Fatalf("%+v, expected the size %d", row, i+2)
			}
		}
		k.send("doubt 0")
		if k.mirror.View(t.Context()).Reliable() {
			t.Error("View relies on a table that is in doubt")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		k.send("a 1")
		if k.mirror.View(ended).Reliable() {
			t.Error("View relies on the table after the end of its context")
		}
	})
}

func TestListedHasAListingOfItsOwn(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		pass(time.Hour)
		for i := range 3 {
			k.set("a", 10+i)
			view, err := k.mirror.Listed(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := 10 + i
			if i == 0 { // the first listing serves the first call
				want = 1
			}
			if row, _ := view.Get(k.table.KeyQuery(thing{Name: "a"})); row.Size != want || k.listings != i+1 {
				t.Errorf("call %d: %+v after %d listings", i+1, row, k.listings)
			}
		}
		k.change(func() { k.listErr = errors.New("broken") })
		began := time.Now()
		if _, err := k.mirror.Listed(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") || time.Since(began) > time.Second/2 {
			t.Errorf("Listed without a listing: %v after %v", err, time.Since(began))
		}
	})
}

func TestListedWaitsWhileTheTableIsInDoubt(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		k.set("a", 7)
		k.doubt()
		view, err := k.mirror.Listed(t.Context())
		if row, _ := view.Get(k.table.KeyQuery(thing{Name: "a"})); err != nil || row.Size != 7 || k.listings != 2 {
			t.Errorf("%+v, %v after %d listings", row, err, k.listings)
		}
	})
}

func TestSettledWaitsForTheEndOfADoubt(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		k.set("a", 7)
		k.send("doubt 0")
		view := k.mirror.Settled(t.Context())
		if row, _ := view.Get(k.table.KeyQuery(thing{Name: "a"})); row.Size != 7 {
			t.Errorf("%+v", row)
		}
		k.change(func() { k.listErr = errors.New("broken") })
		k.send("doubt 0")
		began := time.Now()
		if k.mirror.Settled(t.Context()).Reliable() || time.Since(began) != doubtPatience {
			t.Errorf("Settled relies on the table, or waits for %v", time.Since(began))
		}
	})
}

// A table that is behind is not in doubt: on a busy machine each batch of deletes would list
// everything for itself.
func TestSettledWaitsForWhatIsStillToBeApplied(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		apply := k.mirror.config.Apply
		k.mirror.config.Apply = func(txn *statedb.WriteTxn, e event) (string, error) {
			time.Sleep(10 * doubtPatience)
			return apply(txn, e)
		}
		k.send("a 9")
		if row, _ := k.mirror.Settled(t.Context()).Get(k.table.KeyQuery(thing{Name: "a"})); row.Size != 9 {
			t.Errorf("%+v", row)
		}
	})
}

func TestWhatCannotBeAppliedIsNotReliedUpon(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		apply := k.mirror.config.Apply
		k.mirror.config.Apply = func(txn *statedb.WriteTxn, e event) (string, error) {
			k.mirror.config.Apply = apply
			return "", errors.New("refused")
		}
		k.set("a", 9)
		k.send("a 9")
		if view := k.mirror.View(t.Context()); view.Reliable() {
			row, _ := view.Get(k.table.KeyQuery(thing{Name: "a"}))
			t.Errorf("View relies on %+v", row)
		}
		pass(2 * retryDelay)
		k.want(map[string]int{"a": 9, "b": 1})
	})
}

func TestNobodyWaitsForAMirrorThatHasEnded(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, _ func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.mirror.Run(ctx, k) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 2 {
			_, err := k.mirror.Listed(t.Context())
			if view := k.mirror.View(t.Context()); err == nil || view.Reliable() || time.Since(began) > 0 {
				t.Errorf("Listed: %v, View is reliable: %v, after %v", err, view.Reliable(), time.Since(began))
			}
		}
	})
}
