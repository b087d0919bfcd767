package hive_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

func newHive(t *testing.T, o hive.Options, cells ...cell.Cell) *hive.Hive {
	t.Helper()
	o.Name = "test-app"
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	if o.LookupEnv == nil {
		o.LookupEnv = func(string) (string, bool) { return "", false }
	}
	h, err := hive.New(o, cells...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// hook invokes with hooks that note their calls.
func hook(calls *[]string, name string, start error) cell.Cell {
	return cell.Invoke(func(l cell.Lifecycle) {
		l.Append(cell.Hook{
			Name:    name,
			OnStart: func(context.Context) error { *calls = append(*calls, "start "+name); return start },
			OnStop:  func(context.Context) error { *calls = append(*calls, "stop "+name); return nil },
		})
	})
}

func TestHiveProvidesWhatEveryModuleNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var db *statedb.DB
		var statuses *statedb.Table[health.Status]
		h := newHive(t, hive.Options{},
			cell.Module("agent", "", cell.Module("route", "",
				cell.Invoke(func(g job.Group, h health.Health, info hive.Info) error {
					h.OK(info.Name + " " + info.EnvPrefix)
					return g.Add(job.OneShot("reconciler", func(ctx context.Context, h health.Health) error {
						h.Degraded("2 rows failed", errBroken)
						<-ctx.Done()
						return nil
					}))
				}))),
			cell.Invoke(func(d *statedb.DB, s *statedb.Table[health.Status]) { db, statuses = d, s }),
		)
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var got []string
		for s := range statuses.All(db.ReadTxn()) {
			got = append(got, s.ID+": "+s.Message)
		}
		want := []string{"agent.route: test-app TEST_APP", "agent.route.reconciler: 2 rows failed"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		if err := h.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStartsInOrderAndStopsInReverse(t *testing.T) {
	var calls []string
	h := newHive(t, hive.Options{}, hook(&calls, "a", nil), cell.Module("m", "", hook(&calls, "b", nil)))
	if err := errors.Join(h.Start(t.Context()), h.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	if want := []string{"start a", "start b", "stop b", "stop a"}; !slices.Equal(calls, want) {
		t.Errorf("got %q", calls)
	}
}

func TestHookOfADependencyStartsFirst(t *testing.T) {
	type server struct{}
	var calls []string
	note := func(name string) func(context.Context) error {
		return func(context.Context) error { calls = append(calls, name); return nil }
	}
	h := newHive(t, hive.Options{},
		cell.Invoke(func(l cell.Lifecycle, _ *server) { l.Append(cell.Hook{OnStart: note("user")}) }),
		cell.Provide(func(l cell.Lifecycle) *server { l.Append(cell.Hook{OnStart: note("server")}); return &server{} }),
	)
	if err := errors.Join(h.Start(t.Context()), h.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	if want := []string{"server", "user"}; !slices.Equal(calls, want) {
		t.Errorf("got %q", calls)
	}
}

func TestFailedStartStopsAndCannotBeRepeated(t *testing.T) {
	var calls []string
	h := newHive(t, hive.Options{}, hook(&calls, "a", nil), hook(&calls, "b", errBroken), hook(&calls, "c", nil))
	err := h.Start(t.Context())
	var failed *cell.HookError
	if !errors.Is(err, errBroken) || !errors.As(err, &failed) {
		t.Errorf("got %v", err)
	}
	if want := []string{"start a", "start b", "stop b", "stop a"}; !slices.Equal(calls, want) {
		t.Errorf("got %q", calls)
	}
	if err := h.Start(t.Context()); !errors.Is(err, hive.ErrStarted) {
		t.Errorf("second start: %v", err)
	}
	if err := h.Stop(t.Context()); !errors.Is(err, hive.ErrNotStarted) {
		t.Errorf("stop: %v", err)
	}
}

func TestStopBeforeStartIsAnError(t *testing.T) {
	if err := newHive(t, hive.Options{}).Stop(t.Context()); !errors.Is(err, hive.ErrNotStarted) {
		t.Errorf("got %v", err)
	}
}

func TestStartDeadlineNamesTheHookAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		stuck := func(l cell.Lifecycle) {
			l.Append(cell.Hook{Name: "stuck", OnStart: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		}
		h := newHive(t, hive.Options{}, hook(&calls, "a", nil), cell.Module("slow", "", cell.Invoke(stuck)))
		began := time.Now()
		err := h.Start(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `stuck of module "slow"`) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %v", took)
		}
		if want := []string{"start a", "stop a"}; !slices.Equal(calls, want) {
			t.Errorf("got %q", calls)
		}
	})
}

func TestConfigurationIsReadBeforeAnythingIsConstructed(t *testing.T) {
	type config struct {
		Interval time.Duration `flag:"full-interval"`
	}
	env := func(name string) (string, bool) { return "abc", name == "TEST_APP_FULL_INTERVAL" }
	h := newHive(t, hive.Options{LookupEnv: env}, cell.Config(config{}), cell.Invoke(func() { t.Error("constructed") }))
	err := h.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), `TEST_APP_FULL_INTERVAL="abc": expected a duration`) {
		t.Errorf("got %v", err)
	}
}

func TestFlagsAreListedWithoutRunning(t *testing.T) {
	type config struct {
		Dir string `flag:"dir" usage:"where"`
	}
	h := newHive(t, hive.Options{}, cell.Module("m", "", cell.Config(config{}), cell.Invoke(func() { t.Error("constructed") })))
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	if err := h.RegisterFlags(fs); err != nil || fs.Lookup("dir") == nil {
		t.Errorf("got %v", err)
	}
}

func TestHiveNeedsAName(t *testing.T) {
	if _, err := hive.New(hive.Options{}); err == nil {
		t.Error("a hive without a name was made")
	}
}

// run runs a hive, in a synctest bubble, until it ends by itself.
func run(t *testing.T, signals chan os.Signal, cells ...cell.Cell) <-chan error {
	t.Helper()
	h := newHive(t, hive.Options{Signals: signals}, cells...)
	result := make(chan error, 1)
	go func() { result <- h.Run(t.Context()) }()
	synctest.Wait()
	return result
}

func TestRunStopsAtASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		signals := make(chan os.Signal, 1)
		result := run(t, signals, hook(&calls, "a", nil))
		signals <- syscall.SIGTERM
		if err := <-result; err != nil {
			t.Error(err)
		}
		if want := []string{"start a", "stop a"}; !slices.Equal(calls, want) {
			t.Errorf("got %q", calls)
		}
	})
}

func TestRunStopsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		ctx, cancel := context.WithCancel(t.Context())
		h := newHive(t, hive.Options{Signals: make(chan os.Signal)}, hook(&calls, "a", nil))
		time.AfterFunc(time.Second, cancel) // after the start, which takes no time
		if err := h.Run(ctx); err != nil {
			t.Error(err)
		}
		if want := []string{"start a", "stop a"}; !slices.Equal(calls, want) {
			t.Errorf("got %q", calls)
		}
	})
}

func TestSecondSignalAborts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		signals := make(chan os.Signal, 1)
		result := run(t, signals, cell.Invoke(func(l cell.Lifecycle) {
			l.Append(cell.Hook{OnStop: func(context.Context) error { <-release; return nil }})
		}))
		signals <- syscall.SIGINT
		synctest.Wait()
		began := time.Now()
		signals <- syscall.SIGINT
		err := <-result
		var abort *hive.AbortError
		if !errors.As(err, &abort) || abort.Signal != syscall.SIGINT || time.Since(began) != 0 {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		close(release)
	})
}

func TestSignalCutsAStartShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		signals := make(chan os.Signal, 1)
		result := run(t, signals, hook(&calls, "a", nil), cell.Invoke(func(l cell.Lifecycle) {
			l.Append(cell.Hook{Name: "slow", OnStart: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }})
		}))
		signals <- syscall.SIGINT
		err := <-result
		if err == nil || !strings.Contains(err.Error(), "start hook slow") || !strings.Contains(err.Error(), "interrupted by a signal") {
			t.Errorf("got %v", err)
		}
		if want := []string{"start a", "stop a"}; !slices.Equal(calls, want) {
			t.Errorf("got %q", calls)
		}
	})
}

func TestRunReturnsTheErrorOfTheFirstShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := run(t, make(chan os.Signal), cell.Invoke(func(s hive.Shutdowner, g job.Group) error {
			return g.Add(job.OneShot("fails", func(context.Context, health.Health) error { return errBroken }, job.WithOnFailure(func(err error) {
				s.Shutdown(err)
				s.Shutdown(errors.New("second"))
			})))
		}))
		if err := <-result; !errors.Is(err, errBroken) || err.Error() != "broken" {
			t.Errorf("got %v", err)
		}
	})
}

func TestRunReturnsTheErrorOfAShutdownDuringAFailingStart(t *testing.T) {
	h := newHive(t, hive.Options{}, cell.Invoke(func(s hive.Shutdowner, l cell.Lifecycle) {
		l.Append(cell.Hook{Name: "dependent", OnStart: func(context.Context) error {
			s.Shutdown(errBroken)
			return errors.New("gave up")
		}})
	}))
	if err := h.Run(t.Context()); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "gave up") {
		t.Errorf("got %v", err)
	}
}

func TestRunCatchesSignalsOfTheProcess(t *testing.T) {
	h := newHive(t, hive.Options{}, cell.Invoke(func(l cell.Lifecycle) {
		l.Append(cell.Hook{OnStart: func(context.Context) error { return syscall.Kill(os.Getpid(), syscall.SIGTERM) }})
	}))
	// The signal comes during the start or just after it.
	if err := h.Run(t.Context()); err != nil && !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v", err)
	}
}

// A log that nobody reads any more does not end the process.
func TestRunOutlivesTheReaderOfItsLog(t *testing.T) {
	const variable = "STATEHIVE_TEST_NO_READER"
	if os.Getenv(variable) == "" {
		reader, log, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = reader.Close()
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		command.Env, command.Stderr = append(os.Environ(), variable+"=1"), log
		out, err := command.Output()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		_ = log.Close()
		return
	}
	h := newHive(t, hive.Options{}, cell.Invoke(func(l cell.Lifecycle, s hive.Shutdowner) {
		l.Append(cell.Hook{OnStart: func(context.Context) error {
			defer s.Shutdown(nil)
			if _, err := os.Stderr.WriteString("log"); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("got %v", err)
			}
			return nil
		}})
	}))
	if err := h.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSettingsComeFromTheFileThatIsNamed(t *testing.T) {
	type config struct {
		Interval time.Duration `flag:"interval"`
	}
	file := filepath.Join(t.TempDir(), "settings.yaml")
	env := func(name string) (string, bool) { return file, name == "TEST_APP_CONFIG" }
	for text, want := range map[string]string{"interval: 5s\n": "", "# nothing\nintervall: 5s\n": `settings.yaml:2: unknown key "intervall": there is interval`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var got config
		h := newHive(t, hive.Options{LookupEnv: env}, cell.Config(config{Interval: time.Second}), cell.Invoke(func(c config) { got = c }))
		err := h.Start(t.Context())
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
			continue
		}
		all, again := h.Settings()
		if err := errors.Join(err, again, h.Stop(t.Context())); err != nil || got.Interval != 5*time.Second || len(all) != 2 {
			t.Errorf("got %v %+v %+v", err, got, all)
		}
	}
}

func TestFileOfSettingsThatIsNotThereIsNamedWithWhoNamesIt(t *testing.T) {
	h := newHive(t, hive.Options{LookupEnv: func(name string) (string, bool) { return "/nowhere.yaml", name == "TEST_APP_CONFIG" }})
	if err := h.Start(t.Context()); err == nil || !strings.Contains(err.Error(), `environment variable TEST_APP_CONFIG="/nowhere.yaml": open /nowhere.yaml`) {
		t.Errorf("got %v", err)
	}
}

func TestACommandCanHaveTheFlagOfOneSetting(t *testing.T) {
	type settings struct {
		Dir string `flag:"dir" usage:"where"`
		Far bool   `flag:"far" usage:"how"`
	}
	var got settings
	h := newHive(t, hive.Options{}, cell.Config(settings{}), cell.Invoke(func(s settings) { got = s }))
	flags := pflag.NewFlagSet("command", pflag.ContinueOnError)
	if err := h.RegisterFlag(flags, "dir"); err != nil {
		t.Fatal(err)
	}
	if flags.Lookup("far") != nil || h.RegisterFlag(flags, "dir") == nil || h.RegisterFlag(flags, "none") == nil {
		t.Error("a flag was registered that is not to be")
	}
	if err := flags.Parse([]string{"--dir=/here"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Settings(); err != nil {
		t.Fatal(err)
	}
	if err := h.Invoke(func(s settings) { got = s }); err != nil || got.Dir != "/here" {
		t.Errorf("got %+v, %v", got, err)
	}
}
