package hive_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
)

// runWithin runs the hive and fails if that takes longer than limit.
func runWithin(t *testing.T, limit time.Duration, cells ...cell.Cell) error {
	t.Helper()
	h := newHive(t, hive.Options{Signals: make(chan os.Signal), StartTimeout: 10 * time.Second}, cells...)
	began := time.Now()
	result := make(chan error, 1)
	go func() { result <- h.Run(t.Context()) }()
	select {
	case err := <-result:
		if took := time.Since(began); took > limit {
			t.Errorf("took %v", took)
		}
		return err
	case <-time.After(time.Hour):
		t.Fatal("it runs for ever")
		return nil
	}
}

func TestDeadlineOfTheStartCoversConstructorsAndNamesTheOneThatHangs(t *testing.T) {
	type server struct{}
	for name, verb := range map[string]string{"constructor": "provide ", "invoked": "invoke "} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			hang := func() *server { <-release; return nil }
			c := cell.Group(cell.Provide(hang), cell.Invoke(func(*server) {}))
			if name == "invoked" {
				c = cell.Invoke(func() { hang() })
			}
			err := runWithin(t, 12*time.Second, cell.Module("m", "", c), cell.Invoke(func() { t.Error("called after the deadline") }))
			var build *cell.BuildError
			if !errors.As(err, &build) || build.Module != "m" || !strings.Contains(build.Function, verb) || !strings.Contains(build.Function, "bounds_test.go:") ||
				!errors.Is(err, cell.ErrOverdue) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v", name, err)
			}
			close(release)
		})
	}
}

// checked has a method Validate that does not return as it should.
type checked struct{ how func() }

func (c checked) Validate() error { c.how(); return nil }

func TestDeadlineOfTheStartCoversTheConfigurationAndNamesWhatHangs(t *testing.T) {
	for name, test := range map[string]struct {
		how  func(release <-chan struct{})
		want error
	}{
		"hangs":  {func(release <-chan struct{}) { <-release }, context.DeadlineExceeded},
		"goexit": {func(<-chan struct{}) { runtime.Goexit() }, cell.ErrGoexit},
		"panic":  {func(<-chan struct{}) { panic("on purpose") }, cell.ErrPanic},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				err := runWithin(t, 12*time.Second, cell.Module("m", "",
					cell.Config(checked{how: func() { test.how(release) }}),
					cell.Invoke(func(checked) { t.Error("constructed with a bad configuration") })))
				var config *cell.ConfigError
				if !errors.As(err, &config) || config.Module != "m" || !errors.Is(err, test.want) ||
					!strings.Contains(err.Error(), "Config[hive_test.checked] (") || !strings.Contains(err.Error(), "bounds_test.go:") {
					t.Errorf("got %v", err)
				}
				if name == "hangs" && !errors.Is(err, cell.ErrOverdue) {
					t.Errorf("it is not overdue: %v", err)
				}
				close(release)
			})
		})
	}
}

// slow is a setting whose text takes long to parse.
type slow struct{}

var parsing chan struct{} // blocks the parsing of a slow

// UnmarshalText implements encoding.TextUnmarshaler.
func (*slow) UnmarshalText([]byte) error { <-parsing; return nil }

func TestDeadlineOfTheStartCoversTheParsingOfSettings(t *testing.T) {
	type config struct {
		Slow slow `flag:"slow"`
	}
	synctest.Test(t, func(t *testing.T) {
		parsing = make(chan struct{})
		h := newHive(t, hive.Options{
			StartTimeout: 10 * time.Second, LookupEnv: func(name string) (string, bool) { return "x", name == "TEST_APP_SLOW" },
		}, cell.Module("m", "", cell.Config(config{})))
		began := time.Now()
		err := h.Start(t.Context())
		var config *cell.ConfigError
		if !errors.As(err, &config) || config.Module != "m" || config.Origin != "environment variable TEST_APP_SLOW" ||
			!errors.Is(err, cell.ErrOverdue) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 12*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		close(parsing)
	})
}

func TestShutdownDuringTheStartEndsItAtOnce(t *testing.T) {
	for _, reason := range []error{nil, errBroken} {
		for name, during := range map[string]func(s hive.Shutdowner, l cell.Lifecycle){
			"invoked function": func(s hive.Shutdowner, _ cell.Lifecycle) { s.Shutdown(reason) },
			"start hook": func(s hive.Shutdowner, l cell.Lifecycle) {
				l.Append(cell.Hook{OnStart: func(context.Context) error { s.Shutdown(reason); return nil }})
			},
			"another goroutine": func(s hive.Shutdowner, l cell.Lifecycle) {
				l.Append(cell.Hook{OnStart: func(ctx context.Context) error {
					time.AfterFunc(time.Second, func() { s.Shutdown(reason) })
					<-ctx.Done()
					return ctx.Err()
				}})
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				var calls []string
				err := runWithin(t, time.Second, hook(&calls, "a", nil), cell.Invoke(during), hook(&calls, "c", nil))
				if !errors.Is(err, reason) || reason != nil && err.Error() != reason.Error() {
					t.Errorf("%s: got %v", name, err)
				}
				want := []string{"start a", "stop a"}
				if name == "invoked function" {
					want = nil
				}
				if !slices.Equal(calls, want) {
					t.Errorf("%s: got %q", name, calls)
				}
			})
		}
	}
}

func TestStartThatAShutdownCutsShortIsAnError(t *testing.T) {
	h := newHive(t, hive.Options{}, cell.Invoke(func(s hive.Shutdowner) { s.Shutdown(nil) }, func() { t.Error("called") }))
	if err := h.Start(t.Context()); !errors.Is(err, hive.ErrShutdown) {
		t.Errorf("got %v", err)
	}
	if err := h.Invoke(func(*hive.Readiness) {}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestHookThatAShutdownLeavesBehindIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		err := runWithin(t, 2*time.Second, cell.Invoke(func(s hive.Shutdowner, l cell.Lifecycle) {
			l.Append(cell.Hook{Name: "stuck", OnStart: func(context.Context) error { s.Shutdown(nil); <-release; return nil }})
		}))
		if !errors.Is(err, cell.ErrOverdue) || !strings.Contains(err.Error(), "start hook stuck") {
			t.Errorf("got %v", err)
		}
		close(release)
	})
}

func TestSignalDoesNotWaitForAConstructor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		signals := make(chan os.Signal, 1)
		result := run(t, signals, cell.Invoke(func() { <-release }))
		signals <- syscall.SIGTERM
		began := time.Now()
		if err := <-result; !errors.Is(err, cell.ErrOverdue) || time.Since(began) > 2*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		close(release)
	})
}

func TestRunReturnsWhateverEndsItsGoroutine(t *testing.T) {
	goexit := func(context.Context) error { runtime.Goexit(); return nil }
	for name, c := range map[string]cell.Cell{
		"invoke": cell.Invoke(func() { runtime.Goexit() }),
		"start":  cell.Invoke(func(l cell.Lifecycle) { l.Append(cell.Hook{OnStart: goexit}) }),
		"stop": cell.Invoke(func(s hive.Shutdowner, l cell.Lifecycle) {
			l.Append(cell.Hook{OnStart: func(context.Context) error { s.Shutdown(nil); return nil }, OnStop: goexit})
		}),
	} {
		synctest.Test(t, func(t *testing.T) {
			if err := runWithin(t, 0, c); !errors.Is(err, cell.ErrGoexit) {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
}

// nilError is an error that is usually a nil pointer by mistake. Then its Error panics.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestErrorThatIsANilPointerIsReportedLikeAnyOther(t *testing.T) {
	fails := func() error { var err *nilError; return err }
	hook := func(context.Context) error { return fails() }
	for name, c := range map[string]cell.Cell{
		"invoke": cell.Invoke(fails),
		"start":  cell.Invoke(func(l cell.Lifecycle) { l.Append(cell.Hook{OnStart: hook}) }),
		"stop":   cell.Invoke(func(l cell.Lifecycle) { l.Append(cell.Hook{OnStop: hook}) }),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHive(t, hive.Options{}, c)
			err := h.Start(t.Context())
			if err == nil {
				err = h.Stop(t.Context())
			}
			if text := err.Error(); !strings.Contains(text, "bounds_test.go:") || !strings.HasSuffix(text, ": <nil>") {
				t.Errorf("got %q", text)
			}
		})
	}
}

// panickingHealth is a health reporter of a module that panics.
type panickingHealth struct{ health.Health }

func (p panickingHealth) NewScope(name string) (health.Health, error) {
	h, err := p.Health.NewScope(name)
	return panickingHealth{h}, err
}

func (panickingHealth) OK(string)              { panic("on purpose") }
func (panickingHealth) Degraded(string, error) { panic("on purpose") }
func (panickingHealth) Stopped(string)         { panic("on purpose") }
func (panickingHealth) Close()                 { panic("on purpose") }

func TestPanicOfAHealthReporterDoesNotEndJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		completed, failed := 0, 0
		err := runWithin(t, time.Minute, cell.Module("m", "",
			cell.Decorate(func(h health.Health) health.Health { return panickingHealth{h} }),
			cell.Invoke(func(jobs job.Group, s hive.Shutdowner) error {
				time.AfterFunc(30*time.Second, func() { s.Shutdown(nil) })
				return jobs.Add(
					job.OneShot("completes", func(context.Context, health.Health) error { completed++; return nil }),
					job.OneShot("fails", func(context.Context, health.Health) error { return errBroken },
						job.WithOnFailure(func(err error) {
							if failed++; !errors.Is(err, errBroken) {
								t.Errorf("failed with %v", err)
							}
						})),
					job.Timer("runs", func(context.Context, health.Health) error { return nil }, time.Second),
				)
			})))
		if err != nil || completed != 1 || failed != 1 {
			t.Errorf("got %v, %d completed, %d failed", err, completed, failed)
		}
	})
}
