package statedb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
)

// told is a batch as Follow handed it out.
type told struct {
	Changes     []string
	Complete    bool
	Initialized bool
	At          time.Duration // since the beginning
}

func (b told) String() string {
	return fmt.Sprintf("%v complete=%t initialized=%t at %v", b.Changes, b.Complete, b.Initialized, b.At)
}

// followed is a Follow that runs in its own goroutine and notes what it gets.
type followed struct {
	cancel context.CancelFunc
	err    chan error

	mu      sync.Mutex
	batches []told
}

func (f *fixture) startFollow(options statedb.FollowOptions, fn func(context.Context, statedb.Batch[item]) error) *followed {
	ctx, cancel := context.WithCancel(f.t.Context())
	run := &followed{cancel: cancel, err: make(chan error, 1)}
	began := time.Now()
	go func() {
		run.err <- statedb.Follow(ctx, statedb.ReadOnly(f.items), options, func(ctx context.Context, b statedb.Batch[item]) error {
			var names []string
			for _, change := range b.Changes {
				names = append(names, describe(change))
			}
			run.note(told{names, b.Complete, b.Initialized, time.Since(began)})
			if fn != nil {
				return fn(ctx, b)
			}
			return nil
		})
	}()
	return run
}

func (run *followed) note(b told) {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.batches = append(run.batches, b)
}

func (run *followed) take() []told {
	run.mu.Lock()
	defer run.mu.Unlock()
	batches := run.batches
	run.batches = nil
	return batches
}

// want compares what came since it was last asked.
func (run *followed) want(t *testing.T, want ...told) {
	t.Helper()
	synctest.Wait()
	got := run.take()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the batches were\n  %v, expected\n  %v", got, want)
	}
}

func (run *followed) end(t *testing.T, want error) {
	t.Helper()
	if err := <-run.err; !errors.Is(err, want) {
		t.Errorf("Follow returned %v, expected %v", err, want)
	}
}

func TestFollowHandsOutAListingAndThenEachCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLeanFixture(t, item{ID: "b"}, item{ID: "a"})
		run := f.startFollow(statedb.FollowOptions{}, nil)
		run.want(t, told{[]string{"+a", "+b"}, true, true, 0})
		time.Sleep(time.Hour)
		run.want(t)
		f.insert(item{ID: "c"})
		run.want(t, told{[]string{"+c"}, true, true, time.Hour})
		f.remove("a")
		f.insert(item{ID: "d"})
		synctest.Wait()
		f.write().Abort()
		run.cancel()
		run.end(t, context.Canceled)
	})
}

func TestFollowGoesOnFromARevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLeanFixture(t, item{ID: "a"})
		run := f.startFollow(statedb.FollowOptions{After: 1}, nil)
		run.want(t, told{nil, true, true, 0}) // nothing has happened, and that is all
		f.insert(item{ID: "b"})
		run.want(t, told{[]string{"+b"}, true, true, 0})
		run.cancel()
		run.end(t, context.Canceled)
	})
}

func TestFollowSplitsWhatIsLargeAndSaysWhichPartIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLeanFixture(t, item{ID: "a"}, item{ID: "b"}, item{ID: "c"}, item{ID: "d"})
		run := f.startFollow(statedb.FollowOptions{BatchSize: 2, MinInterval: time.Minute}, nil)
		run.want(t, told{[]string{"+a", "+b"}, false, false, 0}, told{[]string{"+c", "+d"}, true, true, 0})
		f.insert(item{ID: "e"}, item{ID: "f"}, item{ID: "g"})
		run.want(t)
		time.Sleep(time.Minute)
		run.want(t, told{[]string{"+e", "+f"}, false, true, time.Minute}, told{[]string{"+g"}, true, true, time.Minute})
		run.cancel()
		run.end(t, context.Canceled)
	})
}

// TestFollowKeepsToOneSnapshotUntilItIsTold: the parts of a batch belong to one snapshot,
// and what is written meanwhile comes in the next one.
func TestFollowKeepsToOneSnapshotUntilItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLeanFixture(t, item{ID: "a"}, item{ID: "b"}, item{ID: "c"})
		written := false
		run := f.startFollow(statedb.FollowOptions{BatchSize: 2}, func(context.Context, statedb.Batch[item]) error {
			if !written {
				written = true
				f.remove("c")
				f.insert(item{ID: "a", Number: 1})
			}
			return nil
		})
		run.want(t,
			told{[]string{"+a", "+b"}, false, false, 0}, told{[]string{"+c"}, true, true, 0},
			told{[]string{"-c", "+a"}, true, true, 0})
		run.cancel()
		run.end(t, context.Canceled)
	})
}

func TestFollowMergesWhatChangesWithinTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLeanFixture(t, item{ID: "a"})
		run := f.startFollow(statedb.FollowOptions{MinInterval: time.Second}, nil)
		run.want(t, told{[]string{"+a"}, true, true, 0})
		for i := range 9 { // until 0.9 s
			time.Sleep(100 * time.Millisecond)
			f.insert(item{ID: "a", Number: i + 1})
		}
		run.want(t)
		time.Sleep(100 * time.Millisecond)
		run.want(t, told{[]string{"+a"}, true, true, time.Second})
		time.Sleep(5 * time.Second)
		f.insert(item{ID: "b"}) // after a rest it does not wait
		run.want(t, told{[]string{"+b"}, true, true, 6 * time.Second})
		run.cancel()
		run.end(t, context.Canceled)
	})
}

func TestFollowEndsWithItsContextWhateverItWaitsFor(t *testing.T) {
	for name, waiting := range map[string]func(f *fixture){
		"for a change":    func(*fixture) {},
		"for an interval": func(f *fixture) { f.insert(item{ID: "b"}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newLeanFixture(t, item{ID: "a"})
				run := f.startFollow(statedb.FollowOptions{MinInterval: time.Hour}, nil)
				synctest.Wait()
				waiting(f)
				synctest.Wait()
				run.cancel()
				run.end(t, context.Canceled)
				run.want(t, told{[]string{"+a"}, true, true, 0})
			})
		})
	}
}

func TestFollowDoesNotBeginWhenItsContextHasEnded(t *testing.T) {
	f := newLeanFixture(t, item{ID: "a"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := statedb.Follow(ctx, statedb.ReadOnly(f.items), statedb.FollowOptions{}, func(context.Context, statedb.Batch[item]) error {
		t.Error("a batch came")
		return nil
	})
	wantError(t, err, context.Canceled)
}

func TestFollowReturnsTheErrorOfItsFunction(t *testing.T) {
	f := newLeanFixture(t, item{ID: "a"}, item{ID: "b"})
	calls := 0
	err := statedb.Follow(t.Context(), statedb.ReadOnly(f.items), statedb.FollowOptions{BatchSize: 1}, func(context.Context, statedb.Batch[item]) error {
		calls++
		return errAborted
	})
	wantError(t, err, errAborted)
	if calls != 1 {
		t.Errorf("called %d times, expected 1", calls)
	}
}

func TestFollowTellsWhenTheInitialStateIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLeanFixture(t)
		var source *statedb.Source
		register := func(name string) {
			f.update(func(txn *statedb.WriteTxn) (err error) {
				source, err = f.items.RegisterSource(txn, name)
				return err
			})
		}
		initialized := func() { f.update(func(txn *statedb.WriteTxn) error { return source.Initialized(txn) }) }
		register("first")
		run := f.startFollow(statedb.FollowOptions{}, nil)
		run.want(t) // nothing to tell
		f.insert(item{ID: "a"})
		run.want(t, told{[]string{"+a"}, true, false, 0})
		initialized()
		run.want(t, told{nil, true, true, 0})
		register("second")
		run.want(t)
		f.insert(item{ID: "b"})
		run.want(t, told{[]string{"+b"}, true, true, 0})
		initialized()
		run.want(t)
		run.cancel()
		run.end(t, context.Canceled)
	})
}

func TestFollowEndsWhenTheTableIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLeanFixture(t, item{ID: "a"})
		run := f.startFollow(statedb.FollowOptions{MinInterval: time.Second}, nil)
		run.want(t, told{[]string{"+a"}, true, true, 0})
		if err := f.db.Drop(t.Context(), f.items); err != nil {
			t.Fatal(err)
		}
		run.end(t, statedb.ErrDropped)
		if err := statedb.Follow(t.Context(), statedb.ReadOnly(f.items), statedb.FollowOptions{}, nil); !errors.Is(err, statedb.ErrDropped) {
			t.Errorf("following a dropped table returned %v", err)
		}
	})
}

// TestFoldOfFollowIsTheTable folds what Follow hands out, in all sizes and with
// cursors that are reset, and compares at every end of a round.
func TestFoldOfFollowIsTheTable(t *testing.T) {
	seeds := uint64(20)
	if raceEnabled {
		seeds = 5
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			f := newLeanFixture(t)
			statedb.SetMinWindow(f.items, 10)
			folded, compared := newFold(), 0
			run := f.startFollow(statedb.FollowOptions{
				BatchSize:   1 + random.IntN(300),
				MinInterval: time.Duration(random.IntN(3)) * time.Second,
			}, func(_ context.Context, b statedb.Batch[item]) error {
				for _, change := range b.Changes {
					folded.apply(change)
				}
				if !b.Complete {
					return nil
				}
				folded.settle()
				compared++
				return folded.differs(statedb.ReadOnly(f.items), b.Txn)
			})
			for range 30 {
				f.update(func(txn *statedb.WriteTxn) error {
					for range random.IntN(600) {
						row := item{ID: fmt.Sprint(random.IntN(200)), Number: random.Int()}
						var err error
						if random.IntN(2) == 0 {
							_, _, err = f.items.Insert(txn, row)
						} else {
							_, _, err = f.items.Delete(txn, row)
						}
						if err != nil {
							return err
						}
					}
					return nil
				})
				time.Sleep(time.Duration(random.IntN(1_000)) * time.Millisecond)
			}
			time.Sleep(time.Minute)
			run.cancel()
			run.end(t, context.Canceled)
			if batches := run.take(); compared < 5 || !batches[len(batches)-1].Complete {
				t.Errorf("seed %d: %d comparisons, the last batch is %v", seed, compared, batches[len(batches)-1])
			}
			check(t, "at the end", folded.differs(statedb.ReadOnly(f.items), f.db.ReadTxn()))
		})
	}
}

func TestFollowKeepsNoRowsOfEarlierBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLeanFixture(t, item{ID: "a"})
		var kept []statedb.Change[item]
		run := f.startFollow(statedb.FollowOptions{}, func(_ context.Context, b statedb.Batch[item]) error {
			kept = b.Changes
			return nil
		})
		synctest.Wait()
		f.insert(item{ID: "b"})
		synctest.Wait()
		run.cancel()
		run.end(t, context.Canceled)
		if all := kept[:cap(kept)]; slices.ContainsFunc(all, func(c statedb.Change[item]) bool { return c.Object.ID == "a" }) {
			t.Errorf("the batch still holds %v", all)
		}
	})
}
