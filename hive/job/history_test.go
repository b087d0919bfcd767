package job_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
)

// remembered is how many jobs of a group that have completed, or failed, are remembered.
const remembered = 16

// rows are how many jobs and how many parts with health there are, once all rows have been written.
func (m *module) rows() (jobs, parts int) {
	time.Sleep(time.Second)
	synctest.Wait()
	txn := m.db.ReadTxn()
	return m.jobs.Table().Len(txn), m.health.Table().Len(txn)
}

func (m *module) wantRows(want int) {
	m.Helper()
	if jobs, parts := m.rows(); jobs != want || parts != want {
		m.Errorf("%d jobs and %d parts with health are left, want %d", jobs, parts, want)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestFinishedOneShotsLeaveABoundedHistory(t *testing.T) {
	const many = 10_000
	bubble(t, func(t *testing.T, m *module) {
		m.start()
		defer m.stop()
		add := func(from, to int) {
			for i := from; i < to; i++ {
				m.must(m.Add(job.OneShot(fmt.Sprint("job ", i), func(context.Context, health.Health) error { return nil })))
				if i%100 == 98 {
					synctest.Wait()
				}
			}
		}
		add(0, 1000)
		m.rows()
		before := heap()
		add(1000, 1000+many)
		m.wantRows(remembered)
		if kept := int64(heap()) - int64(before); kept > 1<<20 {
			t.Errorf("%d finished jobs keep %d bytes", many, kept)
		}
		m.wantStatus(fmt.Sprint("job ", many+999), health.Stopped, "completed")
		if s := m.job(fmt.Sprint("job ", many+999)); s.State != job.Ended || s.Runs != 1 {
			t.Errorf("the last one: %+v", s)
		}
	})
}

func TestJobsThatFailedAreRememberedWhateverCompletes(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		m.start()
		defer m.stop()
		m.must(m.Add(job.OneShot("bad", func(context.Context, health.Health) error { return errors.New("broken") })))
		for i := range 1000 {
			m.must(m.Add(job.OneShot(fmt.Sprint(i), func(context.Context, health.Health) error { return nil })))
			synctest.Wait()
		}
		m.wantRows(remembered + 1)
		m.wantStatus("bad", health.Degraded, "failed")
		for i := range 1000 {
			m.must(m.Add(job.OneShot(fmt.Sprint(i), func(context.Context, health.Health) error { return errors.New("broken") })))
			synctest.Wait()
		}
		m.wantRows(remembered)
	})
}

func TestNameOfAJobThatIsRememberedIsUsedAgain(t *testing.T) {
	for _, times := range []int{1, 1000} { // rows that are written at once, and together
		bubble(t, func(t *testing.T, m *module) {
			m.start()
			defer m.stop()
			for range times {
				m.must(m.Add(job.OneShot("again", func(context.Context, health.Health) error { return nil })))
				synctest.Wait()
			}
			s, err := m.NewScope("again")
			m.must(err)
			m.must(s.Stop(t.Context()))
			m.must(m.Add(job.OneShot("again", untilDone)))
			if _, err := m.NewScope("again"); !errors.Is(err, health.ErrDuplicate) {
				t.Errorf("a scope with the name of a running job: %v", err)
			}
			m.wantRows(1)
			if s := m.job("again"); s.State != job.Running || s.Runs != 0 {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestRowsOfJobsThatRunAllTheTimeAreWrittenRarely(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		runs := 0
		for i := range 10 {
			m.must(m.Add(job.Timer(fmt.Sprint("t", i), func(context.Context, health.Health) error {
				if i == 0 {
					runs++
				}
				return nil
			}, 2*time.Millisecond)))
		}
		m.start()
		time.Sleep(10*time.Second + time.Millisecond/2)
		synctest.Wait()
		if n := m.jobs.Table().Revision(m.db.ReadTxn()); n > 10*statedb.Revision(100+10)+200 {
			t.Errorf("%d rows were written in ten seconds", n)
		}
		if s := m.job("t0"); runs < 4500 || s.Runs+501 < uint64(runs) {
			t.Errorf("after %d runs: %+v", runs, s)
		}
		m.stop()
		if s := m.job("t0"); s.Runs != uint64(runs) || s.State != job.Ended {
			t.Errorf("after %d runs and the stop: %+v", runs, s)
		}
	})
}
