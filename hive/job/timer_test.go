package job_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
)

// counter is a timer's function that notes when it was run.
type counter struct {
	began time.Time
	takes time.Duration

	mu   sync.Mutex
	runs []time.Duration
	err  error
}

func (c *counter) run(context.Context, health.Health) error {
	c.mu.Lock()
	c.runs = append(c.runs, time.Since(c.began))
	err := c.err
	c.mu.Unlock()
	<-time.After(c.takes)
	return err
}

func (c *counter) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *counter) want(t *testing.T, runs ...time.Duration) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(runs, c.runs); diff != "" {
		t.Error(diff)
	}
}

func TestTimerRunsEveryIntervalAndWhenTriggered(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		c, trigger := &counter{began: time.Now()}, job.NewTrigger()
		m.must(m.Add(job.Timer("t", c.run, time.Minute, job.WithTrigger(trigger))))
		m.start()
		time.Sleep(90 * time.Second)
		trigger.Trigger()
		time.Sleep(time.Minute + time.Second)
		m.stop()
		time.Sleep(time.Hour)
		c.want(t, 60*time.Second, 90*time.Second, 150*time.Second)
	})
}

func TestTimerWithoutIntervalRunsOnlyWhenTriggered(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		c, trigger := &counter{began: time.Now()}, job.NewTrigger()
		m.must(m.Add(job.Timer("t", c.run, 0, job.WithTrigger(trigger))))
		trigger.Trigger() // before the start
		m.start()
		time.Sleep(time.Hour)
		c.want(t, 0)
		m.stop()
	})
}

func TestTriggersDuringARunMakeOneMoreRun(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		c, trigger := &counter{began: time.Now(), takes: 10 * time.Second}, job.NewTrigger()
		m.must(m.Add(job.Timer("t", c.run, 0, job.WithTrigger(trigger), job.WithImmediateRun())))
		m.start()
		for range 5 {
			time.Sleep(time.Second)
			trigger.Trigger()
		}
		time.Sleep(time.Hour)
		c.want(t, 0, 10*time.Second)
		m.stop()
	})
}

func TestDebounceCollectsTriggersAndKeepsTheLast(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		c, trigger := &counter{began: time.Now(), takes: time.Second}, job.NewTrigger()
		m.must(m.Add(job.Timer("t", c.run, 0, job.WithTrigger(trigger), job.WithDebounce(10*time.Second))))
		m.start()
		for range 3 { // at 0, 4, 8 s: one run at 10 s
			trigger.Trigger()
			time.Sleep(4 * time.Second)
		}
		// 12 s: after the run that began at 10 s
		trigger.Trigger()
		time.Sleep(time.Hour)
		c.want(t, 10*time.Second, 22*time.Second)
		trigger.Trigger()
		synctest.Wait()
		m.stop()
		c.want(t, 10*time.Second, 22*time.Second)
	})
}

func TestHealthOfATimerIsThatOfItsLastRun(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		c := &counter{began: time.Now()}
		m.must(m.Add(job.Timer("t", c.run, time.Minute)))
		m.start()
		m.wantStatus("t", health.OK, "waiting for its first run")
		c.fail(errors.New("no route"))
		time.Sleep(61 * time.Second)
		m.wantStatus("t", health.Degraded, "the last run failed")
		c.fail(nil)
		time.Sleep(time.Minute)
		m.wantStatus("t", health.OK, "every 1m0s")
		before := m.health.Table().Revision(m.db.ReadTxn())
		time.Sleep(time.Minute)
		synctest.Wait()
		if after := m.health.Table().Revision(m.db.ReadTxn()); after != before {
			t.Error("a run that changed nothing wrote health")
		}
		m.stop()
		m.wantStatus("t", health.Stopped, "stopped")
	})
}

func TestJitterKeepsIntervalsWithinItsBounds(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		c := &counter{began: time.Now()}
		m.must(m.Add(job.Timer("t", c.run, time.Minute, job.WithJitter(10*time.Second))))
		m.start()
		time.Sleep(time.Hour)
		m.stop()
		distinct := map[time.Duration]bool{}
		last := time.Duration(0)
		for _, at := range c.runs {
			if d := at - last; d < 50*time.Second || d > 70*time.Second {
				t.Errorf("an interval of %v", d)
			}
			distinct[at-last] = true
			last = at
		}
		if len(distinct) < 10 {
			t.Errorf("only %d different intervals", len(distinct))
		}
	})
}
