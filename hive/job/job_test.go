package job_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/internal/lifecycle"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// module is what a job group has around it in a hive.
type module struct {
	testing.TB
	job.Group
	*lifecycle.Lifecycle
	hooks  cell.Lifecycle
	db     *statedb.DB
	health *health.Registry
	jobs   *job.Registry
}

func newModule(t testing.TB) *module {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	m := &module{TB: t, Lifecycle: lifecycle.New(logger), db: statedb.New()}
	m.hooks = m.For("m")
	var err error
	if m.health, err = health.NewRegistry(m.db, logger); err != nil {
		t.Fatal(err)
	}
	if m.jobs, err = job.NewRegistry(m.db, logger); err != nil {
		t.Fatal(err)
	}
	h, err := m.health.Scope("m")
	if err != nil {
		t.Fatal(err)
	}
	m.Group = job.NewGroup(job.Params{ID: "m", Lifecycle: m.hooks, Health: h, Logger: logger, Registry: m.jobs})
	return m
}

func (m *module) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *module) start() { m.Helper(); m.must(m.Start(m.Context())) }

func (m *module) stop() {
	m.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	m.must(m.Stop(ctx))
}

func (m *module) status(name string) health.Status {
	s, _, _ := m.health.Table().Get(m.db.ReadTxn(), health.ByID().Query("m."+name))
	return s
}

func (m *module) wantStatus(name string, level health.Level, message string) {
	m.Helper()
	synctest.Wait()
	if s := m.status(name); s.Level != level || !strings.Contains(s.Message, message) {
		m.Errorf("health of %s: got %v %q, want %v %q", name, s.Level, s.Message, level, message)
	}
}

func untilDone(ctx context.Context, _ health.Health) error {
	<-ctx.Done()
	return ctx.Err()
}

func bubble(t *testing.T, fn func(t *testing.T, m *module)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, newModule(t)) })
}

func TestJobRunsFromStartToStop(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		ran := 0
		m.must(m.Add(
			job.OneShot("short", func(context.Context, health.Health) error { ran++; return nil }),
			job.OneShot("long", untilDone),
		))
		synctest.Wait()
		if ran != 0 {
			t.Error("it ran before the start")
		}
		m.start()
		m.wantStatus("short", health.Stopped, "completed")
		m.wantStatus("long", health.OK, "running")
		m.stop()
		if ran != 1 {
			t.Errorf("it ran %d times", ran)
		}
		m.wantStatus("long", health.Stopped, "stopped")
	})
}

func TestJobsStartAndStopAtTheirPlaceInTheLifecycle(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		var calls []string
		hook := func(name string) cell.Hook {
			return cell.Hook{
				OnStart: func(context.Context) error { synctest.Wait(); calls = append(calls, "start "+name); return nil },
				OnStop:  func(context.Context) error { calls = append(calls, "stop "+name); return nil },
			}
		}
		m.hooks.Append(hook("before"))
		m.must(m.Add(job.OneShot("job", func(ctx context.Context, _ health.Health) error {
			calls = append(calls, "start job")
			<-ctx.Done()
			calls = append(calls, "stop job")
			return nil
		})))
		m.hooks.Append(hook("after"))
		m.start()
		m.stop()
		want := []string{"start before", "start job", "start after", "stop after", "stop job", "stop before"}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Error(diff)
		}
	})
}

func TestJobAddedWhileRunningStartsAtOnceAndIsStopped(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		m.start()
		m.must(m.Add(job.OneShot("late", untilDone)))
		m.wantStatus("late", health.OK, "running")
		m.stop()
		m.wantStatus("late", health.Stopped, "stopped")
	})
}

func TestAddAfterStopIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		m.start()
		m.stop()
		err := m.Add(job.OneShot("late", untilDone))
		if !errors.Is(err, job.ErrStopped) || !strings.Contains(err.Error(), `"late" of "m"`) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAddWhileStoppingNeitherDeadlocksNorLosesTheJob(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		var added error
		m.start()
		m.must(m.Add(job.OneShot("adder", func(ctx context.Context, _ health.Health) error {
			<-ctx.Done()
			added = m.Add(job.OneShot("another", untilDone))
			return nil
		})))
		m.stop()
		if !errors.Is(added, job.ErrStopped) {
			t.Errorf("got %v", added)
		}
	})
}

func TestNameOfARunningJobIsRefusedAndThatOfAnEndedOneIsFree(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		m.start()
		m.must(m.Add(job.OneShot("a", untilDone)))
		err := m.Add(job.OneShot("b", untilDone), job.OneShot("a", untilDone))
		if want := `cannot add job "a" of "m": there is a job, a scope or a part named "a" already`; !errors.Is(err, health.ErrDuplicate) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if s := m.status("b"); s.ID != "" {
			t.Errorf("a job of a refused Add runs: %+v", s)
		}
		once := func(context.Context, health.Health) error { return nil }
		m.must(m.Add(job.OneShot("b", once)))
		m.wantStatus("b", health.Stopped, "completed")
		m.must(m.Add(job.OneShot("b", untilDone)))
		m.wantStatus("b", health.OK, "running")
		m.stop()
	})
}

func TestOverdueJobIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		release := make(chan struct{})
		m.must(m.Add(job.OneShot("stubborn", func(context.Context, health.Health) error { <-release; return nil })))
		m.start()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := m.Stop(ctx)
		var overdue *job.OverdueError
		if !errors.As(err, &overdue) || !strings.Contains(overdue.Job, `"stubborn" of module "m"`) {
			t.Errorf("got %v", err)
		}
		if n := strings.Count(err.Error(), "has not ended"); n != 1 {
			t.Errorf("it is named %d times: %v", n, err)
		}
		close(release)
	})
}

func TestPanicDegradesHealthAndIsAnErrorWithStack(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		var failed error
		m.must(m.Add(job.OneShot("bad", func(context.Context, health.Health) error { panic("ouch") }, job.WithOnFailure(func(err error) { failed = err }))))
		m.start()
		m.wantStatus("bad", health.Degraded, "failed")
		var p *cell.PanicError
		if !errors.As(failed, &p) || p.Value != "ouch" || !strings.Contains(string(p.Stack), "job_test.go") {
			t.Errorf("got %v", failed)
		}
		if !strings.Contains(m.status("bad").Error, "panic: ouch") {
			t.Errorf("got %+v", m.status("bad"))
		}
		m.stop()
	})
}

func TestJobThatEndsInNoOrdinaryWayDegradesHealth(t *testing.T) {
	for name, tt := range map[string]struct {
		job  job.Job
		want string
	}{
		"panic in OnFailure": {
			job.OneShot("j", func(context.Context, health.Health) error { return errors.New("x") }, job.WithOnFailure(func(error) { panic("no") })),
			"panic: no",
		},
		"end of the goroutine": {
			job.Timer("j", func(context.Context, health.Health) error { runtime.Goexit(); return nil }, time.Second),
			"ended its goroutine",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *module) {
				m.must(m.Add(tt.job))
				m.start()
				time.Sleep(time.Minute)
				m.wantStatus("j", health.Degraded, "failed")
				if s := m.status("j"); !strings.Contains(s.Error, tt.want) {
					t.Errorf("got %q", s.Error)
				}
				m.stop()
			})
		})
	}
}

func TestRetryDelaysDoubleUpToTheLast(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		began, runs := time.Now(), []time.Duration{}
		failure := 0
		fn := func(context.Context, health.Health) error {
			runs = append(runs, time.Since(began))
			return fmt.Errorf("failure %d", len(runs))
		}
		m.must(m.Add(job.OneShot("bad", fn, job.WithRetries(4), job.WithBackoff(job.Exponential(time.Second, 3*time.Second)), job.WithOnFailure(func(error) { failure++ }))))
		m.start()
		m.wantStatus("bad", health.Degraded, "failed 1 times, next attempt after 1s")
		time.Sleep(time.Hour)
		synctest.Wait()
		s := time.Second
		if diff := cmp.Diff([]time.Duration{0, s, 3 * s, 6 * s, 9 * s}, runs); diff != "" {
			t.Error(diff)
		}
		if failure != 1 || m.status("bad").Error != "failure 5" {
			t.Errorf("%d failures, %+v", failure, m.status("bad"))
		}
		m.stop()
	})
}

func TestRetryEndsWithSuccessOrStop(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		attempts := 0
		m.must(m.Add(
			job.OneShot("heals", func(context.Context, health.Health) error {
				if attempts++; attempts < 3 {
					return errors.New("not yet")
				}
				return nil
			}, job.WithRetries(-1), job.WithBackoff(job.Exponential(0, 0))),
			job.OneShot("never", func(context.Context, health.Health) error { return errors.New("no") }, job.WithRetries(-1), job.WithBackoff(job.Exponential(time.Hour, time.Duration(1<<63-1)))),
		))
		m.start()
		time.Sleep(time.Minute)
		m.wantStatus("heals", health.Stopped, "completed")
		m.wantStatus("never", health.Degraded, "failed 1 times")
		m.stop()
		m.wantStatus("never", health.Stopped, "stopped")
	})
}
