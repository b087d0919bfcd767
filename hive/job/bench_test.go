package job_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
)

// BenchmarkTriggeredTimer is a run of a timer from its trigger to its end.
func BenchmarkTriggeredTimer(b *testing.B) {
	m := newModule(b)
	ran, trigger := make(chan struct{}), job.NewTrigger()
	fn := func(context.Context, health.Health) error { ran <- struct{}{}; return nil }
	m.must(m.Add(job.Timer("t", fn, time.Hour, job.WithTrigger(trigger))))
	m.start()
	defer m.stop()
	b.ReportAllocs()
	before := cpu(b)
	for b.Loop() {
		trigger.Trigger()
		<-ran
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}

// BenchmarkOneShot adds a job to a hive that is running and waits until it has run.
func BenchmarkOneShot(b *testing.B) {
	m := newModule(b)
	ran := make(chan struct{})
	fn := func(context.Context, health.Health) error { ran <- struct{}{}; return nil }
	m.start()
	defer m.stop()
	b.ReportAllocs()
	before := cpu(b)
	i := 0
	for b.Loop() {
		i++
		m.must(m.Add(job.OneShot("job-"+strconv.Itoa(i), fn)))
		<-ran
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}

// BenchmarkManyTimers has 200 timers of 10 ms run, and reports the CPU time of a run.
func BenchmarkManyTimers(b *testing.B) {
	m := newModule(b)
	var runs atomic.Int64
	var done sync.WaitGroup
	done.Add(1)
	fn := func(context.Context, health.Health) error {
		if runs.Add(1) == int64(b.N) {
			done.Done()
		}
		return nil
	}
	for i := range 200 {
		m.must(m.Add(job.Timer("t"+strconv.Itoa(i), fn, 10*time.Millisecond)))
	}
	before := cpu(b)
	m.start()
	done.Wait()
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
	m.stop()
}

// cpu is the CPU time that the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
