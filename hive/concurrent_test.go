package hive_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
)

// concurrent is what a module is given that several goroutines may use at once.
type concurrent struct {
	cell.In

	Inspector hive.Inspector
	Readiness *hive.Readiness
	Reloads   *hive.Reloads
	Jobs      job.Group
	Health    health.Health
	Parts     *hive.SubLifecycles
}

// use has two goroutines for each method, which call it until done is closed.
func (c concurrent) use(t *testing.T, calling *sync.WaitGroup, done <-chan struct{}) {
	trigger := job.NewTrigger()
	if err := c.Jobs.Add(job.Timer("timer", func(context.Context, health.Health) error { return nil }, time.Hour, job.WithTrigger(trigger))); err != nil {
		t.Error(err)
	}
	part := c.Parts.New("part", func(_ context.Context, s hive.Scope) error {
		s.Lifecycle.Append(cell.Hook{Name: "part", OnStart: func(context.Context) error { return nil }})
		return s.Jobs.Add(job.OneShot("work", func(ctx context.Context, _ health.Health) error { <-ctx.Done(); return nil }))
	})
	for i, method := range []func(name string){
		func(string) { c.Inspector.Describe() },
		func(string) { c.Inspector.Hooks() },
		func(string) { c.Inspector.Settings() },
		func(string) { c.Readiness.Ready() },
		func(string) { trigger.Trigger() },
		func(name string) {
			if err := c.Jobs.Add(job.OneShot(name, func(context.Context, health.Health) error { return nil })); err != nil &&
				!errors.Is(err, job.ErrStopped) && !errors.Is(err, health.ErrDuplicate) {
				t.Error(err)
			}
		},
		func(name string) {
			if s, err := c.Jobs.NewScope("scope " + name); err == nil {
				_ = s.Add(job.OneShot("work", func(ctx context.Context, _ health.Health) error { <-ctx.Done(); return nil }))
				if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			}
		},
		func(name string) {
			if h, err := c.Health.NewScope("health " + name); err == nil {
				h.OK(name)
				h.Close()
			}
		},
		func(string) { _ = part.Start(t.Context()) }, // it may be stopping, or cut short
		func(string) { _ = part.Stop(context.WithoutCancel(t.Context())) },
	} {
		for k := range 2 {
			calling.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					case <-time.After(time.Millisecond): // two cores have other things to do, too
						method(fmt.Sprint(i, k, n%100))
					}
				}
			})
		}
	}
}

// What is safe for concurrent use is called by many goroutines from before the start until after the stop. There is something to
// be found under -race only, or if something blocks.
func TestWhatIsSafeForConcurrentUseIs(t *testing.T) {
	var calling sync.WaitGroup
	done := make(chan struct{})
	var ready *hive.Readiness
	signals := make(chan os.Signal)
	h := newHive(t, hive.Options{Signals: signals},
		cell.Module("user", "", cell.Invoke(func(c concurrent) {
			c.Reloads.Add("nothing", func(context.Context) error { return nil })
			c.use(t, &calling, done)
		})),
		cell.Module("slow", "", cell.Invoke(func(l cell.Lifecycle) {
			pause := func(context.Context) error { <-time.After(10 * time.Millisecond); return nil }
			for range 5 {
				l.Append(cell.Hook{OnStart: pause, OnStop: pause})
			}
		})))
	describing := make(chan struct{})
	calling.Go(func() {
		close(describing)
		for {
			select {
			case <-done:
				return
			default:
				h.Describe()
			}
		}
	})
	<-describing
	for range 100 {
		if err := h.Invoke(func(r *hive.Readiness) { ready = r }); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Run(t.Context()) }()
	if err := ready.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		signals <- syscall.SIGHUP
	}
	signals <- syscall.SIGTERM
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(done)
	calling.Wait()
}
