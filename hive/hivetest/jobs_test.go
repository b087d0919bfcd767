package hivetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/hivetest"
	"github.com/statehive/statehive/hive/job"
)

func TestJobsOfAUnitTestRunWithoutAHive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := hivetest.NewJobs(t)
		runs := 0
		err := jobs.Add(job.Timer("measure", func(context.Context, health.Health) error {
			if runs++; runs == 2 {
				return errors.New("disk full")
			}
			return nil
		}, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		if s, ok := jobs.Health.Of("measure"); !ok || s.Level != health.Degraded || s.Error != "disk full" {
			t.Errorf("health: %+v, %t", s, ok)
		}
		if s, ok := jobs.Job("measure"); !ok || s.Runs != 2 || s.Failures != 1 {
			t.Errorf("row: %+v, %t", s, ok)
		}
		if _, ok := jobs.Health.Of(); ok {
			t.Error("there is health that nobody has reported")
		}
		jobs.Health.OK("well")
		if s, ok := jobs.Health.Of(); !ok || s.Message != "well" {
			t.Errorf("own health: %+v, %t", s, ok)
		}
		if err := jobs.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := jobs.Add(job.OneShot("late", func(context.Context, health.Health) error { return nil })); !errors.Is(err, job.ErrStopped) {
			t.Errorf("add after the stop: %v", err)
		}
	})
}

func TestJobsOfAUnitTestStopWithIt(t *testing.T) {
	stopped := make(chan struct{})
	t.Run("inner", func(t *testing.T) {
		jobs := hivetest.NewJobs(t)
		if err := jobs.Add(job.OneShot("j", func(ctx context.Context, _ health.Health) error { <-ctx.Done(); close(stopped); return nil })); err != nil {
			t.Fatal(err)
		}
	})
	select {
	case <-stopped:
	default:
		t.Error("not stopped")
	}
}
