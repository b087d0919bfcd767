package hive_test

import (
	"context"
	"errors"
	"slices"
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

func TestNoJobIsAddedAfterAStartThatHasFailedInAConstructor(t *testing.T) {
	var g job.Group
	broken := errors.New("broken")
	h := newHive(t, hive.Options{}, cell.Module("m", "", cell.Invoke(func(jobs job.Group) { g = jobs })), cell.Invoke(func() error { return broken }))
	if err := h.Start(t.Context()); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if err := g.Add(job.OneShot("late", func(context.Context, health.Health) error { t.Error("it ran"); return nil })); !errors.Is(err, job.ErrStopped) {
		t.Errorf("got %v", err)
	}
}

// conn is what a job uses.
type conn struct{ open atomic.Bool }

// decoratedLifecycle has only the methods of cell.Lifecycle.
type decoratedLifecycle struct{ cell.Lifecycle }

func TestJobAddedWhileRunningStopsBeforeWhatItsModuleDependsOn(t *testing.T) {
	t.Run("plain", func(t *testing.T) { testJobAddedWhileRunning(t) })
	t.Run("decorated", func(t *testing.T) {
		testJobAddedWhileRunning(t, cell.Decorate(func(l cell.Lifecycle) cell.Lifecycle { return decoratedLifecycle{l} }))
	})
}

func testJobAddedWhileRunning(t *testing.T, more ...cell.Cell) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var add func() error
		var flushed atomic.Bool
		var uses, late atomic.Int32
		newConn := func(l cell.Lifecycle) *conn {
			c := &conn{}
			l.Append(cell.Hook{
				OnStart: func(context.Context) error { c.open.Store(true); return nil },
				OnStop:  func(context.Context) error { c.open.Store(false); time.Sleep(time.Second); return nil },
			})
			return c
		}
		h := newHive(t, hive.Options{}, cell.Group(more...), cell.Provide(newConn),
			// The group of jobs is made before the connection.
			cell.Module("user", "", cell.Provide(func(g job.Group, c *conn) *time.Location {
				add = func() error {
					return g.Add(job.Timer("use", func(context.Context, health.Health) error {
						if uses.Add(1); !c.open.Load() {
							late.Add(1)
						}
						return nil
					}, 50*time.Millisecond), job.OneShot("flush", func(ctx context.Context, _ health.Health) error {
						<-ctx.Done()
						flushed.Store(true)
						return nil
					}))
				}
				return time.UTC
			})),
			// What depends on the module can use its jobs until it has stopped itself.
			cell.Module("dependent", "", cell.Invoke(func(_ *time.Location, l cell.Lifecycle) {
				l.Append(cell.Hook{OnStop: func(context.Context) error {
					if before := uses.Load(); flushed.Load() {
						t.Error("the jobs of a dependency have been stopped already")
					} else if time.Sleep(time.Second); uses.Load() == before {
						t.Error("the jobs of a dependency do not run")
					}
					return nil
				}})
			})),
		)
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := add(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := h.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if uses.Load() == 0 || late.Load() > 0 || !flushed.Load() {
			t.Errorf("%d uses, %d of them after the stop of what is used; flushed: %v", uses.Load(), late.Load(), flushed.Load())
		}
	})
}

func TestNothingCanBeAddedWhileTheHiveStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var groups []job.Group
		ran := false
		add := func(context.Context) error {
			for _, g := range groups {
				if err := g.Add(job.OneShot("late", func(context.Context, health.Health) error { ran = true; return nil })); !errors.Is(err, job.ErrStopped) {
					t.Errorf("add while stopping: %v", err)
				}
			}
			return nil
		}
		note := cell.Invoke(func(g job.Group) { groups = append(groups, g) })
		h := newHive(t, hive.Options{}, cell.Module("early", "", note), cell.Module("other", "", note),
			cell.Invoke(func(l cell.Lifecycle) { l.Append(cell.Hook{OnStop: add}) }))
		if err := errors.Join(h.Start(t.Context()), h.Stop(t.Context())); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(groups) != 2 || ran {
			t.Errorf("%d groups; a late job ran: %v", len(groups), ran)
		}
	})
}

func TestGroupFirstUsedAfterTheStartRunsItsJobsUntilTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began, ended bool
		h := newHive(t, hive.Options{})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := h.Invoke(func(g job.Group) error {
			return g.Add(job.OneShot("a", func(ctx context.Context, _ health.Health) error {
				began = true
				<-ctx.Done()
				ended = true
				return nil
			}))
		})
		synctest.Wait()
		if err := errors.Join(err, h.Stop(t.Context())); err != nil {
			t.Error(err)
		}
		if !began || !ended {
			t.Errorf("began: %v, ended: %v", began, ended)
		}
	})
}

func TestGroupFirstUsedWhileStoppingRunsNothing(t *testing.T) {
	var h *hive.Hive
	h = newHive(t, hive.Options{}, cell.Invoke(func(l cell.Lifecycle) {
		l.Append(cell.Hook{OnStop: func(context.Context) error {
			return h.Invoke(func(g job.Group) {
				if err := g.Add(job.OneShot("a", func(context.Context, health.Health) error { return nil })); !errors.Is(err, job.ErrStopped) {
					t.Errorf("got %v", err)
				}
			})
		}})
	}))
	if err := errors.Join(h.Start(t.Context()), h.Stop(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestScopesOfAModuleDoNotCollideWithModulesInIt(t *testing.T) {
	for _, scopeFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var log []string
			report := func(name string) func(health.Health, job.Group) error {
				return func(h health.Health, jobs job.Group) error {
					h.OK(name)
					return jobs.Add(job.OneShot("c", func(ctx context.Context, _ health.Health) error { <-ctx.Done(); return nil }))
				}
			}
			scope := func(jobs job.Group) error {
				s, err := jobs.NewScope("b")
				if err != nil {
					return err
				}
				return s.Add(job.OneShot("c", func(ctx context.Context, _ health.Health) error { <-ctx.Done(); return nil }))
			}
			contents := []cell.Cell{cell.Module("b", "", cell.Invoke(report("module"))), cell.Invoke(scope)}
			if scopeFirst {
				slices.Reverse(contents)
			}
			var jobs *statedb.Table[job.Status]
			var statuses *statedb.Table[health.Status]
			var db *statedb.DB
			h := newHive(t, hive.Options{}, cell.Module("a", "", contents...), cell.Invoke(
				func(d *statedb.DB, j *statedb.Table[job.Status], s *statedb.Table[health.Status]) {
					db, jobs, statuses = d, j, s
				}))
			if err := h.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			time.Sleep(time.Minute) // for the rows to be written
			for s := range jobs.All(db.ReadTxn()) {
				log = append(log, s.ID+" is "+s.Name+" of "+string(s.Module))
			}
			for s := range statuses.All(db.ReadTxn()) {
				log = append(log, s.ID)
			}
			wantLog(t, log, `a."b".c is "b".c of a`, "a.b.c is c of a.b", `a."b".c`, "a.b", "a.b.c")
			if err := h.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
