package hive_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
)

// part is a hive whose module "m" has a part "p".
type part struct {
	*hive.Hive
	*hive.SubLifecycle

	conn   conn
	jobs   *statedb.Table[job.Status]
	health *statedb.Table[health.Status]
	db     *statedb.DB
}

func newPart(t *testing.T, setup func(context.Context, hive.Scope) error, more ...cell.Cell) *part {
	p := &part{}
	p.Hive = newHive(t, hive.Options{}, cell.Module("m", "",
		cell.Provide(func(l cell.Lifecycle) *conn {
			l.Append(cell.Hook{OnStop: func(context.Context) error { p.conn.open.Store(false); return nil }})
			p.conn.open.Store(true)
			return &p.conn
		}),
		// What the part needs is made after the sub-lifecycles.
		cell.Invoke(func(s *hive.SubLifecycles, _ *conn) { p.SubLifecycle = s.New("p", setup) }),
		cell.Invoke(func(db *statedb.DB, jobs *statedb.Table[job.Status], h *statedb.Table[health.Status]) {
			p.db, p.jobs, p.health = db, jobs, h
		}),
	), cell.Group(more...))
	return p
}

// run starts the hive and has it stopped at the end of the test.
func (p *part) run(t *testing.T) {
	t.Helper()
	if err := p.Hive.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Hive.Stop(context.WithoutCancel(t.Context())); err != nil && !errors.Is(err, hive.ErrNotStarted) {
			t.Error(err)
		}
	})
}

// wantNothing fails if anything of the part is left.
func (p *part) wantNothing(t *testing.T) {
	t.Helper()
	txn := p.db.ReadTxn()
	if jobs, parts := p.jobs.Len(txn), p.health.Len(txn); jobs+parts > 0 {
		t.Errorf("%d rows of jobs and %d of health are left", jobs, parts)
	}
}

func TestPartOfAModuleIsStartedAndStoppedOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		note := func(s string) func(context.Context) error {
			return func(context.Context) error { log = append(log, s); return nil }
		}
		p := newPart(t, func(_ context.Context, s hive.Scope) error {
			log = append(log, "setup")
			s.Health.OK("set up")
			s.Lifecycle.Append(cell.Hook{OnStart: note("start"), OnStop: note("stop")})
			return s.Jobs.Add(job.OneShot("work", func(ctx context.Context, h health.Health) error {
				h.OK("works")
				log = append(log, "work")
				<-ctx.Done()
				log = append(log, "end")
				return nil
			}))
		})
		p.run(t)
		for range 2 {
			log = nil
			if err := errors.Join(p.SubLifecycle.Start(t.Context()), p.SubLifecycle.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for _, id := range []string{"m.p", "m.p.work"} {
				if _, _, found := p.health.Get(p.db.ReadTxn(), health.ByID().Query(id)); !found {
					t.Errorf("no health of %s", id)
				}
			}
			if err := errors.Join(p.SubLifecycle.Stop(t.Context()), p.SubLifecycle.Stop(t.Context())); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			wantLog(t, log, "setup", "start", "work", "end", "stop")
			time.Sleep(time.Minute) // for the rows to be written
			p.wantNothing(t)
		}
	})
}

func wantLog(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestPartStopsBeforeWhatItsModuleDependsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *part
		var stopped atomic.Bool
		p = newPart(t, func(_ context.Context, s hive.Scope) error {
			s.Lifecycle.Append(cell.Hook{OnStop: func(context.Context) error {
				if stopped.Store(true); !p.conn.open.Load() {
					t.Error("the connection has been closed already")
				}
				return nil
			}})
			return nil
		})
		p.run(t)
		if err := errors.Join(p.SubLifecycle.Start(t.Context()), p.Hive.Stop(t.Context())); err != nil {
			t.Fatal(err)
		}
		if !stopped.Load() {
			t.Error("the part has not been stopped")
		}
		if err := p.SubLifecycle.Start(t.Context()); !errors.Is(err, hive.ErrStopping) || !strings.HasSuffix(err.Error(), `module "m": the hive is stopping`) {
			t.Errorf("started after the stop of the hive: %v", err)
		}
	})
}

func TestFailedStartOfAPartStopsWhatHadStartedAndCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		faults := map[error]func() error{
			broken:         func() error { return broken },
			cell.ErrPanic:  func() error { panic("on purpose") },
			cell.ErrGoexit: func() error { runtime.Goexit(); return nil },
		}
		var fault, fail func() error // of setup, and of the second hook
		stops := 0
		p := newPart(t, func(_ context.Context, s hive.Scope) error {
			s.Health.OK("set up")
			s.Lifecycle.Append(cell.Hook{OnStop: func(context.Context) error { stops++; return nil }})
			s.Lifecycle.Append(cell.Hook{OnStart: func(context.Context) error { return fail() }})
			return fault()
		})
		p.run(t)
		good := func() error { return nil }
		for want, bad := range faults {
			fault, fail = bad, good
			if err := p.SubLifecycle.Start(t.Context()); !errors.Is(err, want) {
				t.Errorf("setup: got %v, want %v", err, want)
			}
			fault, fail = good, bad
			stops = 0
			if err := p.SubLifecycle.Start(t.Context()); !errors.Is(err, want) {
				t.Errorf("hook: got %v, want %v", err, want)
			}
			if stops != 1 {
				t.Errorf("stopped %d times", stops)
			}
			p.wantNothing(t)
		}
		fault, fail = good, good
		if err := p.SubLifecycle.Start(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStopCutsTheStartOfAPartShort(t *testing.T) {
	for name, tt := range map[string]struct {
		stop func(*part, context.Context) error
		want error
	}{
		"of the part": {func(p *part, ctx context.Context) error { return p.SubLifecycle.Stop(ctx) }, context.Canceled},
		"of the hive": {func(p *part, ctx context.Context) error { return p.Hive.Stop(ctx) }, hive.ErrStopping},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPart(t, func(ctx context.Context, _ hive.Scope) error { <-ctx.Done(); return ctx.Err() },
					cell.Invoke(func(l cell.Lifecycle) { // which stops before the part, and does not keep it starting
						l.Append(cell.Hook{OnStop: func(context.Context) error { time.Sleep(time.Second); return nil }})
					}))
				p.run(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				var took time.Duration
				started := make(chan error, 1)
				go func() {
					err := p.SubLifecycle.Start(ctx)
					took = time.Since(began)
					started <- err
				}()
				synctest.Wait()
				if err := tt.stop(p, ctx); err != nil {
					t.Error(err)
				}
				if err := <-started; !errors.Is(err, tt.want) || took > 0 {
					t.Errorf("the start returned %v, after %v", err, took)
				}
			})
		})
	}
}

func TestPartIsToggledUnderLoad(t *testing.T) {
	var up atomic.Int32
	p := newPart(t, func(_ context.Context, s hive.Scope) error {
		s.Lifecycle.Append(cell.Hook{
			OnStart: func(context.Context) error {
				if n := up.Add(1); n != 1 {
					t.Errorf("started %d times", n)
				}
				return nil
			},
			OnStop: func(context.Context) error { up.Add(-1); return nil },
		})
		return s.Jobs.Add(job.Timer("tick", func(_ context.Context, h health.Health) error {
			if h.OK("ticks"); up.Load() != 1 {
				t.Error("a job runs without what it needs")
			}
			return nil
		}, time.Millisecond))
	})
	p.run(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if err := p.SubLifecycle.Start(t.Context()); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, hive.ErrStopping) {
					t.Error(err)
				}
				if err := p.SubLifecycle.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := p.SubLifecycle.Start(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := p.Hive.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if n := up.Load(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestOverdueHooksOfPartsAreNamedWithinOneGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var all []*hive.SubLifecycle
		h := newHive(t, hive.Options{StopTimeout: 10 * time.Second}, cell.Module("m", "", cell.Invoke(func(parts *hive.SubLifecycles) {
			for _, name := range []string{"a", "b", "c"} {
				all = append(all, parts.New(name, func(_ context.Context, scope hive.Scope) error {
					scope.Lifecycle.Append(cell.Hook{Name: "stuck " + name, OnStop: func(context.Context) error { <-release; return nil }})
					return nil
				}))
			}
		})))
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, part := range all {
			if err := part.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		err := h.Stop(t.Context())
		for _, want := range []string{"stuck a", "stuck b", "stuck c"} {
			if !errors.Is(err, cell.ErrOverdue) || !strings.Contains(err.Error(), "stop hook "+want) {
				t.Errorf("no %q in %v", want, err)
			}
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("took %v", took)
		}
		close(release)
	})
}

func TestPartsThatCannotBeStartedFailTheStartOfTheHive(t *testing.T) {
	setup := func(context.Context, hive.Scope) error { return nil }
	h := newHive(t, hive.Options{}, cell.Module("m", "", cell.Invoke(func(parts *hive.SubLifecycles) {
		parts.New("idle", nil)
		parts.New("a", setup)
		parts.New("a", setup)
	})))
	err := h.Start(t.Context())
	for _, want := range []string{`part "idle" of module "m" has no setup function`, `module "m" has two parts "a"`} {
		if err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestPartWithoutASetupFunctionThatIsMadeLaterFailsToStart(t *testing.T) {
	var parts *hive.SubLifecycles
	h := newHive(t, hive.Options{}, cell.Module("m", "", cell.Invoke(func(p *hive.SubLifecycles) { parts = p })))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := parts.New("idle", nil).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no setup function") || errors.Is(err, cell.ErrPanic) {
		t.Errorf("got %v", err)
	}
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
