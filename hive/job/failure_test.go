package job_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
)

var errBroken = errors.New("broken")

// each makes a job of each kind that calls fn at least once.
func (m *module) each(fn func() error, opts ...job.Option) map[string]job.Job {
	m.Helper()
	run := func(context.Context, health.Health) error { return fn() }
	events := make(chan int, 1)
	events <- 1
	table, err := statedb.NewTable(m.db, statedb.Schema[row]{
		Name: "rows", Primary: statedb.NewIndex("name", func(r row) string { return r.Name }),
	})
	m.must(err)
	timed := []job.TimerOption{job.WithImmediateRun()}
	for _, o := range opts {
		timed = append(timed, o)
	}
	return map[string]job.Job{
		"one-shot": job.OneShot("j", run, opts...),
		"timer":    job.Timer("j", run, time.Hour, timed...),
		"observer": job.Observer("j", events, func(context.Context, health.Health, int) error { return fn() }, opts...),
		"table observer": job.TableObserver("j", statedb.ReadOnly(table), statedb.FollowOptions{},
			func(context.Context, health.Health, statedb.Batch[row]) error { return fn() }, opts...),
	}
}

var kinds = []string{"one-shot", "timer", "observer", "table observer"}

// failures collects what WithOnFailure is called with.
type failures struct {
	mu  sync.Mutex
	all []error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, err)
}

func TestJobOfEachKindFailsForGoodAfterItsRetries(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *module) {
				var f failures
				var runs []time.Duration
				began := time.Now()
				linear := func(failures int) time.Duration { return time.Duration(failures) * time.Second }
				m.must(m.Add(m.each(func() error {
					runs = append(runs, time.Since(began))
					return errBroken
				}, job.WithRetries(3), job.WithBackoff(linear), job.WithOnFailure(f.add))[kind]))
				m.start()
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				s := time.Second
				if diff := cmp.Diff([]time.Duration{0, s, 3 * s, 6 * s}, runs); diff != "" {
					t.Error(diff)
				}
				if len(f.all) != 1 || !errors.Is(f.all[0], errBroken) {
					t.Errorf("OnFailure was called with %v", f.all)
				}
				m.wantStatus("j", health.Degraded, "failed")
				if s := m.job("j"); s.State != job.Failed || s.Failures != 4 || !strings.Contains(s.Error, "broken") {
					t.Errorf("got %+v", s)
				}
				m.stop()
			})
		})
	}
}

func TestPanicAndGoexitOfEachKindOfJobAreItsErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		fn   func()
		want error
		text string
	}{
		"panic":            {func() { panic("ouch") }, cell.ErrPanic, "panic: ouch"},
		"panic with error": {func() { panic(errBroken) }, errBroken, "panic: broken"},
		"goexit":           {runtime.Goexit, cell.ErrGoexit, "ended its goroutine"},
	} {
		for _, kind := range kinds {
			t.Run(name+" of "+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T, m *module) {
					var f failures
					m.must(m.Add(m.each(func() error { tt.fn(); return nil }, job.WithRetries(0), job.WithOnFailure(f.add))[kind]))
					m.start()
					m.wantStatus("j", health.Degraded, "failed")
					if len(f.all) != 1 || !errors.Is(f.all[0], tt.want) {
						t.Errorf("OnFailure was called with %v", f.all)
					}
					if s := m.status("j"); !strings.Contains(s.Error, tt.text) {
						t.Errorf("got %+v", s)
					}
					if s := m.job("j"); s.State != job.Failed || s.Runs != 1 || s.Failures != 1 {
						t.Errorf("got %+v", s)
					}
					m.stop()
				})
			})
		}
	}
}

func TestTimerAndObserversGoOnWhateverFails(t *testing.T) {
	for _, kind := range kinds[1:] {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *module) {
				var f failures
				m.must(m.Add(m.each(func() error { return errBroken }, job.WithOnFailure(f.add))[kind]))
				m.start()
				time.Sleep(24 * time.Hour)
				m.wantStatus("j", health.Degraded, "the last run failed")
				if s := m.job("j"); s.State == job.Failed || len(f.all) > 0 {
					t.Errorf("got %+v, OnFailure was called with %v", s, f.all)
				}
				m.stop()
				m.wantStatus("j", health.Stopped, "stopped")
				if len(f.all) > 0 {
					t.Errorf("a stop is a failure: %v", f.all)
				}
			})
		})
	}
}

func TestTimerReturnsToItsIntervalAfterASuccess(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		c := &counter{began: time.Now(), err: errBroken}
		m.must(m.Add(job.Timer("t", c.run, time.Minute, job.WithBackoff(job.Exponential(time.Second, time.Hour)), job.WithRetries(2))))
		m.start()
		time.Sleep(61500 * time.Millisecond)
		c.fail(nil)
		time.Sleep(2 * time.Minute)
		s := time.Second
		c.want(t, 60*s, 61*s, 63*s, 123*s)
		c.fail(errBroken)
		time.Sleep(3 * time.Second)
		c.fail(nil) // after two failures: not too many since the last success
		time.Sleep(time.Minute)
		m.wantStatus("t", health.OK, "every 1m0s")
		m.stop()
	})
}

func TestObserverGetsTheEventThatItRefusedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		events := make(chan int, 2)
		events <- 1
		events <- 2
		var got []int
		m.must(m.Add(job.Observer("o", events, func(_ context.Context, _ health.Health, e int) error {
			if got = append(got, e); len(got) < 3 {
				return errBroken
			}
			return nil
		}, job.WithRetries(-1))))
		m.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]int{1, 1, 1, 2}, got); diff != "" {
			t.Error(diff)
		}
		m.stop()
	})
}

func TestExponentialBackoffDoublesAndDoesNotOverflow(t *testing.T) {
	b := job.Exponential(time.Second, time.Duration(1<<63-1))
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 1 << 40: 1<<63 - 1} {
		if got := b(failures); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
	if got := job.Exponential(0, 0)(9); got != 100*time.Millisecond {
		t.Errorf("without delays: %v", got)
	}
}

// nilError is an error that is usually a nil pointer by mistake. Then its Error panics.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestErrorThatIsANilPointerEndsTheJobLikeAnyOther(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *module) {
				var f failures
				m.must(m.Add(m.each(func() error { var err *nilError; return err }, job.WithRetries(0), job.WithOnFailure(f.add))[kind]))
				m.start()
				m.wantStatus("j", health.Degraded, "failed")
				if s := m.job("j"); s.State != job.Failed || s.Error != "<nil>" {
					t.Errorf("got %+v", s)
				}
				if len(f.all) != 1 {
					t.Errorf("OnFailure was called %d times", len(f.all))
				}
				m.stop()
			})
		})
	}
}
