package job_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
)

func (m *module) job(name string) job.Status {
	s, _, _ := m.jobs.Table().Get(m.db.ReadTxn(), job.ByID().Query("m."+name))
	return s
}

func TestObserverOfAStreamSeesEachEventUntilItEnds(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		events := make(chan int)
		var got []int
		m.must(m.Add(job.Observer("o", events, func(_ context.Context, _ health.Health, e int) error {
			got = append(got, e)
			if e == 2 {
				return errors.New("not this one")
			}
			return nil
		})))
		m.start()
		events <- 1
		events <- 2
		m.wantStatus("o", health.Degraded, "the last run failed")
		events <- 3
		m.wantStatus("o", health.OK, "observing")
		close(events)
		m.wantStatus("o", health.Stopped, "ended")
		if s := m.job("o"); !slices.Equal(got, []int{1, 2, 3}) || s.Runs != 3 || s.Failures != 1 || s.State != job.Ended || s.Canceled {
			t.Errorf("got %v, %+v", got, s)
		}
		m.stop()
	})
}

type row struct{ Name string }

func TestObserverOfATableStartsOverAfterAnErrorAndLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		table, err := statedb.NewTable(m.db, statedb.Schema[row]{
			Name: "rows", Primary: statedb.NewIndex("name", func(r row) string { return r.Name }),
		})
		m.must(err)
		insert := func(name string) {
			m.must(m.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				_, _, err := table.Insert(txn, row{name})
				return err
			}, table))
			synctest.Wait()
		}
		var got []string
		var fail atomic.Bool
		m.must(m.Add(job.TableObserver("o", statedb.ReadOnly(table), statedb.FollowOptions{}, func(_ context.Context, _ health.Health, b statedb.Batch[row]) error {
			if fail.Load() {
				return errors.New("not now")
			}
			for _, c := range b.Changes {
				got = append(got, c.Object.Name)
			}
			return nil
		})))
		insert("a")
		m.start()
		insert("b")
		fail.Store(true)
		insert("c")
		m.wantStatus("o", health.Degraded, "the last run failed")
		time.Sleep(3*time.Second + time.Millisecond) // attempts after 0.1, 0.3, 0.7, 1.5 and 3.1 s
		synctest.Wait()
		if s := m.job("o"); s.Failures != 5 {
			t.Errorf("got %+v", s)
		}
		got = nil
		fail.Store(false)
		time.Sleep(time.Second)
		m.wantStatus("o", health.OK, "observing")
		if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
			t.Error(diff)
		}
		m.stop()
		if s := m.job("o"); s.State != job.Ended || !s.Canceled {
			t.Errorf("got %+v", s)
		}
	})
}

func TestObserverOfTheJobsThemselvesWritesAtMostOncePerSecond(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		m.must(m.Add(job.TableObserver("o", m.jobs.Table(), statedb.FollowOptions{}, func(context.Context, health.Health, statedb.Batch[job.Status]) error {
			return nil
		})))
		m.start()
		time.Sleep(10 * time.Second)
		if n := m.jobs.Table().Revision(m.db.ReadTxn()); n > 15 {
			t.Errorf("%d rows were written in ten seconds", n)
		}
		m.stop()
	})
}

func TestObserverThatPanicsGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		events := make(chan int, 2)
		m.must(m.Add(job.Observer("o", events, func(_ context.Context, _ health.Health, e int) error { panic(fmt.Sprint("ouch ", e)) })))
		m.start()
		events <- 1
		events <- 2
		m.wantStatus("o", health.Degraded, "the last run failed")
		time.Sleep(time.Second)
		synctest.Wait()
		if s := m.job("o"); s.Failures != 2 {
			t.Errorf("got %+v", s)
		}
		m.stop()
	})
}

func TestJobsAreRowsOfATable(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		began := time.Now()
		c := &counter{began: began, takes: 2 * time.Second, err: errors.New("no route")}
		m.must(m.Add(
			job.Timer("t", c.run, time.Minute),
			job.OneShot("once", func(context.Context, health.Health) error { return errors.New("broken") }),
			job.OneShot("retried", func(context.Context, health.Health) error { return errors.New("no") }, job.WithRetries(-1), job.WithBackoff(job.Exponential(time.Hour, time.Hour))),
		))
		want := job.Status{ID: "m.t", Module: "m", Name: "t", Kind: "timer", State: job.Waiting}
		check := func() {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, m.job("t")); diff != "" {
				t.Error(diff)
			}
		}
		check()
		m.start()
		want.State, want.Next = job.Idle, began.Add(time.Minute)
		check()
		time.Sleep(61 * time.Second)
		want.State, want.Next, want.Started = job.Running, time.Time{}, began.Add(time.Minute)
		check()
		time.Sleep(2 * time.Second)
		want.State, want.Runs, want.Failures, want.Duration, want.Error = job.Idle, 1, 1, 2*time.Second, "no route"
		want.Next = began.Add(122 * time.Second)
		check()
		if s := m.job("once"); s.State != job.Failed || s.Runs != 1 || s.Error != "broken" {
			t.Errorf("got %+v", s)
		}
		if s := m.job("retried"); s.State != job.Idle || !s.Next.Equal(began.Add(time.Hour)) {
			t.Errorf("got %+v", s)
		}
		m.stop()
		want.State, want.Next, want.Canceled = job.Ended, time.Time{}, true
		check()
	})
}

func TestRefusedJobLeavesNoRow(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		m.start()
		m.must(m.Add(job.OneShot("a", untilDone)))
		if err := m.Add(job.OneShot("b", untilDone), job.OneShot("a", untilDone)); !errors.Is(err, health.ErrDuplicate) {
			t.Errorf("got %v", err)
		}
		if s := m.job("b"); s.ID != "" {
			t.Errorf("got %+v", s)
		}
		m.stop()
	})
}
