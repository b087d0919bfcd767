package job_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
)

// scope makes a scope of a group.
func (m *module) scope(g job.Group, name string) job.Scope {
	m.Helper()
	s, err := g.NewScope(name)
	m.must(err)
	return s
}

func TestScopeOfJobsStopsBeforeItsGroupAndLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		m.start()
		m.must(m.Add(job.OneShot("j", untilDone)))
		s := m.scope(m, "peer")
		inner := m.scope(s, "inner")
		m.must(s.Add(job.OneShot("j", untilDone), job.OneShot("done", func(context.Context, health.Health) error { return nil })))
		m.must(inner.Add(job.OneShot("j", untilDone)))
		m.wantRows(4)
		for _, name := range []string{"j", "peer.j", "peer.inner.j"} {
			m.wantStatus(name, health.OK, "running")
			if got := m.job(name); got.State != job.Running || got.Name != name || got.Module != "m" {
				t.Errorf("%s: got %+v", name, got)
			}
		}
		m.must(s.Stop(t.Context()))
		m.wantRows(1)
		m.wantStatus("j", health.OK, "running")
		if err := s.Add(job.OneShot("late", untilDone)); !errors.Is(err, job.ErrStopped) || !strings.Contains(err.Error(), `of "m.peer"`) {
			t.Errorf("add after the stop: %v", err)
		}
		if _, err := inner.NewScope("late"); !errors.Is(err, job.ErrStopped) {
			t.Errorf("scope after the stop: %v", err)
		}
		m.must(s.Stop(t.Context()))
		again := m.scope(m, "peer")
		m.must(again.Add(job.OneShot("j", untilDone)))
		m.wantStatus("peer.j", health.OK, "running")
		m.stop()
		m.wantStatus("peer.j", health.Stopped, "stopped")
	})
}

func TestScopeThatIsNotStoppedStopsWithItsGroup(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		s := m.scope(m, "early") // before the start
		ended := 0
		count := func(ctx context.Context, _ health.Health) error { <-ctx.Done(); ended++; return nil }
		m.must(s.Add(job.OneShot("placed", count)))
		m.wantStatus("early.placed", 0, "")
		m.start()
		m.wantStatus("early.placed", health.OK, "running")
		m.must(s.Add(job.OneShot("late", count)))
		m.wantStatus("early.late", health.OK, "running")
		m.stop()
		if ended != 2 {
			t.Errorf("%d of 2 jobs have ended", ended)
		}
		if err := s.Add(job.OneShot("after", untilDone)); !errors.Is(err, job.ErrStopped) {
			t.Errorf("add after the stop: %v", err)
		}
		if _, err := m.NewScope("after"); !errors.Is(err, job.ErrStopped) {
			t.Errorf("scope after the stop: %v", err)
		}
	})
}

func TestScopeThatIsStoppedBeforeTheStartRunsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		s := m.scope(m, "s")
		m.must(s.Add(job.OneShot("j", func(context.Context, health.Health) error { t.Error("it ran"); return nil })))
		m.must(s.Stop(t.Context()))
		m.start()
		m.wantRows(0)
		m.stop()
	})
}

func TestStopOfAScopeNamesWhatIsOverdueAndCanBeRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		m.start()
		release := make(chan struct{})
		s := m.scope(m, "s")
		m.must(s.Add(job.OneShot("stubborn", func(context.Context, health.Health) error { <-release; return nil })))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var overdue *job.OverdueError
		if err := s.Stop(ctx); !errors.As(err, &overdue) || !strings.Contains(overdue.Job, `"s.stubborn" of module "m"`) {
			t.Errorf("got %v", err)
		}
		_, err := m.NewScope("s")
		if want := `cannot add scope "s" of "m": there is a job, a scope or a part named "s" already`; !errors.Is(err, health.ErrDuplicate) || err.Error() != want {
			t.Errorf("the name of a scope whose jobs run is free: %v", err)
		}
		close(release)
		m.must(s.Stop(t.Context()))
		m.wantRows(0)
		m.stop()
	})
}

func TestNamesOfJobsAndScopesDoNotCollide(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		m.start()
		m.must(m.Add(job.OneShot("a.b", untilDone)))
		s := m.scope(m, "a")
		m.must(s.Add(job.OneShot("b", untilDone)))
		synctest.Wait()
		if got := m.job("a.b"); got.State != job.Running {
			t.Errorf("got %+v", got)
		}
		m.must(s.Stop(t.Context()))
		synctest.Wait()
		if got := m.job(`"a.b"`); got.State != job.Running {
			t.Errorf("got %+v", got)
		}
		m.stop()
	})
}

func TestManyScopesLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		m.start()
		for i := range 1000 {
			s := m.scope(m, fmt.Sprint("peer ", i))
			m.must(s.Add(job.OneShot("j", untilDone), job.Timer("t", untilDone, time.Hour)))
			synctest.Wait()
			m.must(s.Stop(t.Context()))
		}
		m.wantRows(0)
		m.stop()
	})
}

func TestJobsHaveLabelsInProfiles(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		m.must(m.Add(job.OneShot("labeled", untilDone)))
		m.start()
		s := m.scope(m, "peer")
		m.must(s.Add(job.Timer("ticks", untilDone, time.Hour, job.WithImmediateRun())))
		synctest.Wait()
		var profile bytes.Buffer
		m.must(pprof.Lookup("goroutine").WriteTo(&profile, 1))
		for _, want := range []string{`"job":"labeled", "module":"m"`, `"job":"peer.ticks", "module":"m"`} {
			if !strings.Contains(profile.String(), want) {
				t.Errorf("no %s in\n%s", want, &profile)
			}
		}
		m.stop()
	})
}
