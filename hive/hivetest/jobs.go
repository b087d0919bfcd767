package hivetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/statehive/statehive/hive/internal/lifecycle"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
)

// stopLimit is how long the jobs of a test may take to end.
const stopLimit = 30 * time.Second

// Jobs is a group of jobs, with their health, for a unit test of what adds jobs: it needs no hive. It has been started, so
// jobs run as soon as they are added. It is safe for concurrent use. In a bubble of testing/synctest intervals and delays of
// jobs take no time.
type Jobs struct {
	job.Group

	// Health is for what is tested, like that of a module. The health of jobs is below it.
	Health *Health
	// DB has the tables of jobs and of health, and can have others.
	DB *statedb.DB

	lifecycle *lifecycle.Lifecycle
	jobs      *job.Registry
}

// NewJobs makes a group that is stopped when the test ends. The test fails if a job has not ended 30 s after that.
func NewJobs(t testing.TB) *Jobs {
	t.Helper()
	logger := Logger(t)
	j := &Jobs{DB: statedb.New(statedb.WithLogger(logger)), lifecycle: lifecycle.New(logger)}
	j.Health = newHealth(t, j.DB)
	var err error
	if j.jobs, err = job.NewRegistry(j.DB, logger); err != nil {
		t.Fatal(err)
	}
	j.Group = job.NewGroup(job.Params{
		ID: testModule, Lifecycle: j.lifecycle.For(testModule), Health: j.Health, Logger: logger, Registry: j.jobs,
	})
	if err := j.lifecycle.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopLimit)
		defer cancel()
		if err := j.Stop(ctx); err != nil && !errors.Is(err, lifecycle.ErrNotStarted) {
			t.Error(err)
		}
	})
	return j
}

// testModule is the module that jobs of a test are in.
const testModule = "test"

// Stop stops the group before the end of the test: Add is an error from then on. Its error is that of jobs that have not
// ended when ctx is done, or that it has been stopped already.
func (j *Jobs) Stop(ctx context.Context) error { return j.lifecycle.Stop(ctx) }

// Job returns the row of a job; false if there is none.
func (j *Jobs) Job(name string) (job.Status, bool) {
	s, _, ok := j.jobs.Table().Get(j.DB.ReadTxn(), job.ByID().Query(testModule+"."+name))
	return s, ok
}
