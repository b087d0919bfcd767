package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// lockable is a table of which only the lock is used.
func lockable() *Table { return newTable(New(), "locked", rowsByPointer[*checked]()) }

func (t *Table) mustAcquire(test *testing.T) {
	test.Helper()
	if err := t.acquire(test.Context(), &part{by: &WriteTxn{}}); err != nil {
		test.Fatal(err)
	}
}

// wantFree checks that nothing is left of who had the lock and who waited for it.
func (t *Table) wantFree(test *testing.T) {
	test.Helper()
	l := &t.lock
	if state := l.state.Load(); state != lockFree || len(l.queue) > 0 || l.holder.Load() != nil {
		test.Errorf("state %d, %d in the queue, holder %v: expected a free lock", state, len(l.queue), l.holder.Load())
	}
	t.mustAcquire(test)
	if state := l.state.Load(); state != lockHeld {
		test.Errorf("state %d, expected one that nobody waits in", state)
	}
	t.release()
	if state := l.state.Load(); state != lockFree {
		test.Errorf("state %d, expected that of a free lock", state)
	}
}

func TestTheLockGoesToThoseWhoWaitInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting = 20
		table := lockable()
		table.mustAcquire(t)
		var mu sync.Mutex
		var got, want []int
		for i := range waiting {
			gives := i%3 == 1 // some give up
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer cancel()
				err := table.acquire(ctx, &part{by: &WriteTxn{}})
				if gives != errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				if err == nil {
					mu.Lock()
					got = append(got, i)
					mu.Unlock()
					table.release()
				}
			}()
			synctest.Wait() // for it to stand in the queue
			if gives {
				cancel()
			} else {
				want = append(want, i)
			}
		}
		table.release()
		synctest.Wait()
		if !slices.Equal(got, want) {
			t.Errorf("the lock went to %v, expected %v", got, want)
		}
		table.wantFree(t)
	})
}

// Who gives up at the very moment of their turn passes the lock on.
func TestGivingUpOnesTurnPassesTheLockOn(t *testing.T) {
	table := lockable()
	l := &table.lock
	table.mustAcquire(t)
	first, second, third := l.enqueue(), l.enqueue(), l.enqueue()
	table.release()
	if !isClosed(first) || isClosed(second) {
		t.Fatal("it should be the first one's turn")
	}
	l.giveUp(first)
	if !isClosed(second) || isClosed(third) {
		t.Fatal("it should be the second one's turn")
	}
	l.giveUp(third)
	l.giveUp(second)
	table.wantFree(t)
}

// Who waits when the lock becomes free before it has been noticed, takes it at once.
func TestWaitingForAFreeLockTakesIt(t *testing.T) {
	table := lockable()
	if turn := table.lock.enqueue(); turn != nil {
		t.Fatal("a free lock was not taken")
	}
	turn := table.lock.enqueue()
	table.lock.pass()
	if !isClosed(turn) {
		t.Error("the lock was not passed on")
	}
	table.lock.pass()
	table.wantFree(t)
}

func TestAContextThatHasEndedDoesNotTakeTheLock(t *testing.T) {
	table := lockable()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := table.acquire(ctx, &part{by: &WriteTxn{}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	table.wantFree(t)
}

// All who wait for the lock of a dropped table come to know it, one after another.
func TestALockOfADroppedTableWakesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := lockable()
		table.mustAcquire(t)
		var dropped atomic.Int32
		for range 5 {
			go func() {
				if err := table.acquire(t.Context(), &part{by: &WriteTxn{}}); errors.Is(err, ErrDropped) {
					dropped.Add(1)
				}
			}()
		}
		synctest.Wait()
		table.lock.dropped.Store(1)
		table.release()
		synctest.Wait()
		if dropped.Load() != 5 {
			t.Errorf("%d of 5 know that it was dropped", dropped.Load())
		}
		table.lock.dropped.Store(0)
		table.wantFree(t)
	})
}

// TestTheLockExcludesAndNobodyIsForgotten has many wait, of whom some give up at any
// moment. The race detector looks at the counter, and the test hangs if a wake-up is lost.
func TestTheLockExcludesAndNobodyIsForgotten(t *testing.T) {
	table := lockable()
	const goroutines, each = 16, 300
	counter, gave := 0, atomic.Int32{}
	var all sync.WaitGroup
	for g := range goroutines {
		random := rand.New(rand.NewPCG(uint64(g), 1))
		all.Go(func() {
			for range each {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				switch random.IntN(4) {
				case 0:
					ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(200))*time.Microsecond)
				case 1:
					ctx, cancel = context.WithCancel(ctx)
					go cancel()
				}
				if err := table.acquire(ctx, &part{by: &WriteTxn{}}); err != nil {
					gave.Add(1)
				} else {
					counter++
					table.release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if got := counter + int(gave.Load()); got != goroutines*each {
		t.Errorf("%d got the lock and %d gave up, of %d", counter, gave.Load(), goroutines*each)
	}
	table.wantFree(t)
}
