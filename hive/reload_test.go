package hive_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/statedb"
)

type reloadedConfig struct {
	Interval time.Duration `flag:"interval"`
	Token    string        `flag:"token" secret:"true"`
}

func (c reloadedConfig) Validate() error {
	if c.Interval < 0 {
		return errors.New("the interval is negative")
	}
	return nil
}

// reloaded is a hive that runs with a settings file.
type reloaded struct {
	t       *testing.T
	file    string
	log     *strings.Builder
	signals chan os.Signal
	called  chan struct{} // gets a value for each reload
	got     reloadedConfig
	health  func() string
	config  func() []cell.Setting
	result  chan error
}

func runReloaded(t *testing.T, text string) *reloaded {
	r := &reloaded{
		t: t, file: filepath.Join(t.TempDir(), "settings.yaml"), log: &strings.Builder{}, signals: make(chan os.Signal, 1),
		called: make(chan struct{}), result: make(chan error, 1),
	}
	r.write(text)
	started := make(chan struct{})
	h, err := hive.New(hive.Options{
		Name: "test-app", Signals: r.signals, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
		LookupEnv: func(name string) (string, bool) { return r.file, name == "TEST_APP_CONFIG" },
	}, cell.Config(reloadedConfig{Interval: time.Second}), cell.Invoke(func(c reloadedConfig, reloads *hive.Reloads, l cell.Lifecycle) {
		r.got = c
		reloads.Add("first", func(context.Context) error { return errBroken })
		reloads.Add("panics", func(context.Context) error { panic("ouch") })
		reloads.Add("ends its goroutine", func(context.Context) error { runtime.Goexit(); return nil })
		reloads.Add("second", func(context.Context) error { r.called <- struct{}{}; return nil })
		l.Append(cell.Hook{OnStart: func(context.Context) error { close(started); return nil }})
	}), cell.Invoke(func(db *statedb.DB, table *statedb.Table[health.Status], i hive.Inspector) {
		r.config = i.Settings
		r.health = func() (text string) {
			for s := range table.All(db.ReadTxn()) {
				if s.ID == "settings" {
					text = s.Level.String() + " " + s.Message + " " + s.Error
				}
			}
			return text
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	go func() { r.result <- h.Run(context.WithoutCancel(t.Context())) }()
	<-started
	return r
}

func (r *reloaded) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// reload changes the file, sends the signal, and checks what is told.
func (r *reloaded) reload(text string, wantHealth string) {
	r.t.Helper()
	r.write(text)
	r.signals <- syscall.SIGHUP
	select {
	case <-r.called:
	case err := <-r.result:
		r.t.Fatalf("Run has ended with %v", err)
	}
	if got := r.health(); !strings.HasPrefix(got, wantHealth) {
		r.t.Errorf("after %q the health is %q, expected %q", text, got, wantHealth)
	}
}

func TestSettingsAreReadAgainAtSIGHUPAndNamedIfTheyHaveChanged(t *testing.T) {
	r := runReloaded(t, "interval: 5s\ntoken: old\n")
	shown := r.config()
	r.reload("interval: 5s\ntoken: old\n", "OK those of the start are in force")
	r.reload("interval: 6s\ntoken: new-secret\n", "OK changed since the start, in force after the next one: interval, token")
	r.reload("interval: often\n", "Degraded the settings cannot be used, those of the start are in force")
	r.reload("intervall: 5s\n", "Degraded the settings cannot be used, those of the start are in force")
	r.reload("interval: -5s\n", "Degraded the settings cannot be used, those of the start are in force")
	if got := r.health(); !strings.Contains(got, "the interval is negative") {
		t.Errorf("health: %q", got)
	}
	if err := os.Chmod(r.file, 0o666); err != nil {
		t.Fatal(err)
	}
	r.reload("interval: 5s\ntoken: old\n", "Degraded the settings cannot be used, those of the start are in force")
	if err := os.Remove(r.file); err != nil {
		t.Fatal(err)
	}
	r.reload("interval: 5s\ntoken: old\n", "OK those of the start are in force")
	for i, s := range r.config() {
		if s.Value != shown[i].Value || s.Origin != shown[i].Origin || s.Err != nil {
			t.Errorf("the setting %s is shown as %+v, was %+v", s.Name, s, shown[i])
		}
	}
	if r.got.Interval != 5*time.Second || r.got.Token != "old" {
		t.Errorf("a module has %+v", r.got)
	}
	r.signals <- syscall.SIGTERM
	if err := <-r.result; err != nil {
		t.Error(err)
	}
	log := r.log.String()
	for _, want := range []string{`settings="[interval token]"`, "settings.yaml:1: interval", "of=first error=broken"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not have %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "new-secret") {
		t.Errorf("the log has a secret:\n%s", log)
	}
}

func TestSIGHUPDoesNotEndTheProcess(t *testing.T) {
	reloaded := false
	h := newHive(t, hive.Options{}, cell.Invoke(func(l cell.Lifecycle, reloads *hive.Reloads) {
		l.Append(cell.Hook{OnStart: func(context.Context) error { return syscall.Kill(os.Getpid(), syscall.SIGHUP) }})
		reloads.Add("end", func(context.Context) error {
			reloaded = true
			return syscall.Kill(os.Getpid(), syscall.SIGTERM)
		})
	}))
	if err := h.Run(t.Context()); err != nil || !reloaded {
		t.Errorf("Run has ended with %v, reloaded %t", err, reloaded)
	}
}

// reloadUntilStopped runs a hive with a function that is called at a reload, and stops the hive during the call.
func reloadUntilStopped(t *testing.T, fn func(ctx context.Context), stop func(signals chan<- os.Signal, s hive.Shutdowner)) (took time.Duration) {
	signals, called := make(chan os.Signal, 1), make(chan struct{})
	var shutdowner hive.Shutdowner
	result := run(t, signals, cell.Invoke(func(r *hive.Reloads, s hive.Shutdowner) {
		shutdowner = s
		r.Add("fn", func(ctx context.Context) error { close(called); fn(ctx); return nil })
	}))
	signals <- syscall.SIGHUP
	<-called
	began := time.Now()
	stop(signals, shutdowner)
	if err := <-result; err != nil {
		t.Error(err)
	}
	return time.Since(began)
}

func TestStopDoesNotWaitForAReload(t *testing.T) {
	stops := map[string]func(chan<- os.Signal, hive.Shutdowner){
		"signal":   func(signals chan<- os.Signal, _ hive.Shutdowner) { signals <- syscall.SIGTERM },
		"shutdown": func(_ chan<- os.Signal, s hive.Shutdowner) { s.Shutdown(nil) },
	}
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if took := reloadUntilStopped(t, func(ctx context.Context) { <-ctx.Done() }, stop); took > 0 {
					t.Errorf("took %v", took)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				if took := reloadUntilStopped(t, func(context.Context) { <-release }, stop); took > time.Second {
					t.Errorf("with a function that ignores its context: took %v", took)
				}
			})
		})
	}
}

func TestReloadThatHangsIsLeftBehindAndNotCalledTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, release := make(chan os.Signal, 1), make(chan struct{})
		hanging, other := 0, 0
		result := run(t, signals, cell.Invoke(func(r *hive.Reloads) {
			r.Add("hangs", func(context.Context) error { hanging++; <-release; return nil })
			r.Add("other", func(ctx context.Context) error { other++; return ctx.Err() })
		}))
		for range 2 {
			signals <- syscall.SIGHUP
			time.Sleep(time.Hour)
			synctest.Wait()
		}
		if hanging != 1 || other != 2 {
			t.Errorf("got %d calls of the one that hangs, %d of the other", hanging, other)
		}
		close(release)
		synctest.Wait()
		signals <- syscall.SIGHUP
		synctest.Wait()
		if hanging != 2 || other != 3 {
			t.Errorf("after the call has returned: got %d calls of it, %d of the other", hanging, other)
		}
		signals <- syscall.SIGTERM
		if err := <-result; err != nil {
			t.Error(err)
		}
	})
}

func TestHealthOfTheSettingsDoesNotCollideWithAModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 1)
		var log []string
		result := run(t, signals, cell.Module("settings", "", cell.Invoke(
			func(h health.Health, reloads *hive.Reloads, db *statedb.DB, table *statedb.Table[health.Status]) {
				h.OK("the module")
				reloads.Add("note", func(context.Context) error {
					for s := range table.All(db.ReadTxn()) {
						log = append(log, s.ID+": "+s.Message)
					}
					return nil
				})
			})))
		signals <- syscall.SIGHUP
		synctest.Wait()
		wantLog(t, log, `"settings": those of the start are in force`, "settings: the module")
		signals <- syscall.SIGTERM
		if err := <-result; err != nil {
			t.Error(err)
		}
	})
}
