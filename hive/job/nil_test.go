package job_test

import (
	"context"
	"strings"
	"testing"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
)

// A job that could only panic is not added, and neither are those with it.
func TestJobWithoutAFunctionIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, m *module) {
		table, err := statedb.NewTable(m.db, statedb.Schema[row]{Name: "rows", Primary: statedb.NewIndex("name", func(r row) string { return r.Name })})
		m.must(err)
		var event func(context.Context, health.Health, int) error
		var batch func(context.Context, health.Health, statedb.Batch[row]) error
		for want, bad := range map[string]job.Job{
			`job "one-shot" has no function`:       job.OneShot("one-shot", nil),
			`job "timer" has no function`:          job.Timer("timer", nil, 1),
			`job "observer" has no function`:       job.Observer("observer", make(chan int), event),
			`job "table observer" has no function`: job.TableObserver("table observer", statedb.ReadOnly(table), statedb.FollowOptions{}, batch),
			"a job is nil":                         nil,
		} {
			if err := m.Add(job.OneShot("good", untilDone), bad); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		m.start()
		if n := m.jobs.Table().Len(m.db.ReadTxn()); n > 0 {
			t.Errorf("%d jobs have been added", n)
		}
		m.stop()
	})
}
