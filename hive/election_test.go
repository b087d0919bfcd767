package hive_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
)

// A job that starts a part of its module learns that the hive is stopping, because parts stop before it does. It is then being stopped
// itself: it has not failed.
func TestJobThatStartsAPartDuringTheStopHasNotFailed(t *testing.T) {
	for name, kind := range map[string]func(fn job.Func, opts ...job.Option) job.Job{
		"one-shot": func(fn job.Func, opts ...job.Option) job.Job { return job.OneShot("elect", fn, opts...) },
		"one-shot with retries": func(fn job.Func, opts ...job.Option) job.Job {
			return job.OneShot("elect", fn, append(opts, job.WithRetries(9))...)
		},
		"timer": func(fn job.Func, opts ...job.Option) job.Job {
			all := []job.TimerOption{job.WithImmediateRun(), job.WithRetries(0)}
			for _, opt := range opts {
				all = append(all, opt)
			}
			return job.Timer("elect", fn, time.Minute, all...)
		},
		"observer": func(fn job.Func, opts ...job.Option) job.Job {
			elected := make(chan struct{}, 1)
			elected <- struct{}{}
			return job.Observer("elect", elected, func(ctx context.Context, h health.Health, _ struct{}) error {
				return fn(ctx, h)
			}, append(opts, job.WithRetries(0))...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log pages
				var elected error
				stopping := make(chan struct{})
				h, err := hive.New(hive.Options{Name: "example", Logger: slog.New(slog.NewTextHandler(&log, nil))},
					cell.Module("m", "", cell.Invoke(func(parts *hive.SubLifecycles, jobs job.Group) error {
						term := parts.New("term", func(context.Context, hive.Scope) error { return nil })
						elect := func(ctx context.Context, _ health.Health) error {
							<-stopping
							elected = term.Start(ctx)
							return elected
						}
						return jobs.Add(kind(elect, job.WithOnFailure(func(err error) { t.Error("it has failed:", err) })))
					})),
					cell.Module("n", "", cell.Invoke(func(l cell.Lifecycle) {
						l.Append(cell.Hook{OnStop: func(context.Context) error { close(stopping); synctest.Wait(); return nil }})
					})),
				)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(h.Start(t.Context()), h.Stop(t.Context())); err != nil {
					t.Fatal(err)
				}
				if !errors.Is(elected, hive.ErrStopping) {
					t.Errorf("the start of the part returned %v", elected)
				}
				if n := log.count("Job failed while it was being stopped", "the hive is stopping"); n != 1 || log.count("level=ERROR") > 0 {
					t.Errorf("wrong log:\n%s", log.buf.String())
				}
			})
		})
	}
}

func TestJobThatSaysSoWithoutAStopHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		h := newHive(t, hive.Options{}, cell.Module("m", "", cell.Invoke(func(jobs job.Group) error {
			return jobs.Add(job.OneShot("a", func(context.Context, health.Health) error { return hive.ErrStopping },
				job.WithOnFailure(func(err error) { failed <- err })))
		})))
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; !errors.Is(err, hive.ErrStopping) {
			t.Error(err)
		}
		if err := h.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestJobThatWaitsForReadinessDuringTheStopHasNotFailed(t *testing.T) {
	for range 200 {
		h := newHive(t, hive.Options{},
			cell.Provide(func() hive.ConditionOut {
				return hive.NewCondition("never", func() []string { return []string{"for ever"} })
			}),
			cell.Module("m", "", cell.Invoke(func(r *hive.Readiness, jobs job.Group) error {
				return jobs.Add(job.OneShot("a", func(ctx context.Context, _ health.Health) error { return r.WaitReady(ctx) },
					job.WithOnFailure(func(err error) { t.Error("it has failed:", err) })))
			})),
		)
		err := h.Start(t.Context())
		runtime.Gosched()
		if err := errors.Join(err, h.Stop(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}
