// Package hive builds, starts, supervises and stops an application made of cells.
//
// Besides what its cells provide, every hive provides: *statedb.DB, one per hive; *health.Registry and the table of statuses as
// *statedb.Table[health.Status]; *job.Registry and the table of jobs as *statedb.Table[job.Status]; Shutdowner; *Readiness; *Reloads;
// Info; Inspector. Each module has its own *slog.Logger, cell.ModuleID, cell.FullModuleID, cell.Lifecycle, health.Health, job.Group and
// *SubLifecycles. All of these are safe for concurrent use.
//
// A Hive itself is not: it is built and run once, by one goroutine. Start reads the configuration, calls the
// invoked functions in the order of the cells, and then runs the lifecycle hooks. A failed start stops what had started. Start and
// Stop return all their errors, joined; see package cell for build errors, and *cell.HookError and *job.OverdueError for errors of
// hooks and jobs.
package hive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/graph"
	"github.com/statehive/statehive/hive/internal/guard"
	"github.com/statehive/statehive/hive/internal/lifecycle"
	"github.com/statehive/statehive/hive/internal/settings"
	"github.com/statehive/statehive/internal/loglimit"
	"github.com/statehive/statehive/internal/stderrlog"
)

var (
	// ErrStarted is returned by every start after the first, even if the first failed.
	ErrStarted = errors.New("the hive has been started already")
	// ErrNotStarted is returned by a stop when there is nothing to stop.
	ErrNotStarted = errors.New("the hive is not started")
	// ErrShutdown is wrapped by the error of a start that Shutdown interrupted. Run does not return it.
	ErrShutdown = errors.New("the hive has been shut down")
)

// Options are the settings of a hive. Only Name is required.
type Options struct {
	// Name of the application, such as "statehive".
	Name string
	// EnvPrefix is the prefix of environment variables: with "STATEHIVE", --config-dir is STATEHIVE_CONFIG_DIR. The default is
	// the name in upper case, with '_' for '-'.
	EnvPrefix string
	// Logger is the parent of the modules' loggers. The default writes text to standard error, and does not wait for more than a
	// second when nobody reads that: beyond 256 KiB, records are lost. Of records at level Warn and above
	// with the same message, module and job, the first 50 per minute are logged, and then the number of those suppressed.
	Logger *slog.Logger
	// LookupEnv reads an environment variable. The default is os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Environ lists the environment as os.Environ does, to detect mistyped variables. The default is os.Environ, or no detection
	// if LookupEnv is set.
	Environ func() []string
	// StartTimeout and StopTimeout limit starting and stopping. If not positive, they are one minute and 30 seconds.
	StartTimeout, StopTimeout time.Duration
	// Signals is the source of signals for Run: the first stops the hive, the second aborts, and SIGHUP reloads. The default is
	// SIGINT, SIGTERM and SIGHUP of the process, while Run runs.
	Signals <-chan os.Signal
}

func (o Options) withDefaults() Options {
	if o.EnvPrefix == "" {
		o.EnvPrefix = strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
	}
	if o.Logger == nil {
		o.Logger = stderrlog.New(os.Stderr)
	}
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
		if o.Environ == nil {
			o.Environ = os.Environ
		}
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = time.Minute
	}
	if o.StopTimeout <= 0 {
		o.StopTimeout = 30 * time.Second
	}
	return o
}

// Info identifies the application. It is injectable.
type Info struct {
	Name      string // such as "statehive"
	EnvPrefix string // such as "STATEHIVE"
}

// Hive is an application made of cells.
type Hive struct {
	options   Options
	graph     *graph.Graph
	log       *loglimit.Handler // of options.Logger
	lifecycle *lifecycle.Lifecycle
	parts     parts
	shutdown  *shutdown
	reloads   *Reloads
	phase     phase
	up        atomic.Bool   // the start has succeeded
	down      chan struct{} // closed when the stop begins, or the start has failed

	configured    bool
	misconfigured error
}

// configFlag is the flag that names the settings file.
const configFlag = "config"

type configFile struct {
	File string `flag:"config" usage:"YAML file of settings, whose keys are the names of flags (empty: none)"`
}

type phase int

const (
	built phase = iota
	started
	ended // stopped, or failed to start
)

// New builds a hive from cells. It calls no constructor. It returns all faults that it finds, joined, each a *cell.GraphError.
func New(o Options, cells ...cell.Cell) (*Hive, error) {
	if o.Name == "" {
		return nil, errors.New("a hive needs a name")
	}
	h := &Hive{options: o.withDefaults(), shutdown: newShutdown(), reloads: &Reloads{}, down: make(chan struct{})}
	h.log = loglimit.New(h.options.Logger.Handler(), loglimit.Options{Level: slog.LevelWarn, Apart: []string{"module", "job"}})
	h.options.Logger = slog.New(h.log)
	h.lifecycle = lifecycle.New(h.options.Logger)
	h.lifecycle.OnClose = func() { close(h.down) } // jobs know by then, so that one that WaitReady wakes has not failed
	lifecycleOf := func(id cell.FullModuleID) cell.Lifecycle { return h.lifecycle.For(id) }
	var err error
	h.graph, err = graph.New(
		graph.Options{Name: o.Name, Logger: h.options.Logger, Lifecycle: lifecycleOf, PerModule: h.perModule(), Own: []cell.Cell{h.own()}, Called: h.lifecycle.Reached},
		cells...,
	)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Info returns the name of the hive and its environment variable prefix.
func (h *Hive) Info() Info { return Info{Name: h.options.Name, EnvPrefix: h.options.EnvPrefix} }

// Env returns the name and value of a flag's environment variable, and whether it is set.
func (h *Hive) Env(flag string) (name, value string, ok bool) {
	name = graph.EnvName(h.options.EnvPrefix, flag)
	value, ok = h.options.LookupEnv(name)
	return name, value, ok
}

// Settings reads the configuration, unless that has been done, and returns it sorted by name, with the origin of each value. Flags
// must have been parsed before. It has the timeout of the start and returns the same errors; an overdue operation is named.
func (h *Hive) Settings() ([]cell.Setting, error) {
	ctx, cancel := h.bounded(context.Background(), "settings", h.options.StartTimeout)
	defer cancel()
	err := h.configure(ctx)
	return h.graph.Settings(), err
}

// configure reads the configuration, unless that has been done.
func (h *Hive) configure(ctx context.Context) error {
	if !h.configured {
		h.configured = true
		h.misconfigured = h.graph.Configure(h.sources(ctx))
	}
	return h.misconfigured
}

func (h *Hive) sources(ctx context.Context) graph.Sources {
	return graph.Sources{
		EnvPrefix: h.options.EnvPrefix, LookupEnv: h.options.LookupEnv, Environ: h.options.Environ,
		FileFlag: configFlag, ReadFile: settings.ReadFile,
		Await: func(what string, fn func() error) error { return h.await(ctx, what, fn) },
	}
}

// await calls fn, which may hang, and abandons it soon after ctx is done.
func (h *Hive) await(ctx context.Context, what string, fn func() error) error {
	overdue, err := lifecycle.Await(ctx, guard.Go(fn), func(since time.Duration) {
		h.options.Logger.Warn("Still waiting", "for", what, "since", since)
	}, nil)
	if overdue {
		return fmt.Errorf("%w: %w", cell.ErrOverdue, err)
	}
	return err
}

// RegisterFlags adds the flags of all cells and --config. It fails if fs has a flag of the same name. Parse fs before the start.
func (h *Hive) RegisterFlags(fs *pflag.FlagSet) error { return h.graph.RegisterFlags(fs) }

// RegisterFlag adds the flag of one setting, such as "config": for commands that need it without starting the hive. It fails if
// there is no such setting, or if fs has such a flag. Parse fs before Settings.
func (h *Hive) RegisterFlag(fs *pflag.FlagSet, name string) error {
	return h.graph.RegisterFlag(fs, name)
}

// Invoke calls fn, outside any module, with arguments from the graph and returns its error. It constructs what fn needs, but starts
// nothing. The call is made on another goroutine. Before the start, nothing that fn needs may depend on configuration.
func (h *Hive) Invoke(fn any) error { return h.graph.Invoke(fn) }

// Validate checks, without constructing or starting anything, for faults that would fail a start with any configuration: missing
// types and cycles, each with its dependency path. It also reports contributions to groups that nothing asks for. Functions passed to
// Invoke count as used, and so do mounted commands. It returns all faults, joined, each a *cell.GraphError; New has already
// reported faults of single cells.
func (h *Hive) Validate() error { return h.graph.Validate() }

// Start reads the configuration, then constructs and starts the hive. If it fails, it stops what had started. The start timeout
// includes configuration, constructors and invoked functions. Shutdown interrupts it; the error then wraps ErrShutdown.
func (h *Hive) Start(ctx context.Context) error {
	err, stopped := h.start(ctx)
	return errors.Join(err, stopped)
}

// start returns the error of the start, and that of the stop after a failed start.
func (h *Hive) start(ctx context.Context) (err, stopped error) {
	if h.phase != built {
		return ErrStarted, nil
	}
	h.phase = ended
	bounded, cancel := h.bounded(ctx, "start", h.options.StartTimeout)
	defer cancel()
	bounded, interrupt := context.WithCancelCause(bounded)
	defer interrupt(nil)
	h.shutdown.cut(func(cause error) {
		h.graph.Interrupt(cause)
		interrupt(cause)
	})
	if err := h.configure(bounded); err != nil {
		return err, h.fail(ctx)
	}
	if err := h.construct(bounded); err != nil {
		return err, h.fail(ctx)
	}
	if err := h.lifecycle.Start(bounded); err != nil {
		return err, h.fail(ctx)
	}
	h.phase = started
	h.up.Store(true)
	return nil, nil
}

// fail stops the hive after a failed start.
func (h *Hive) fail(ctx context.Context) error {
	if err := h.stop(context.WithoutCancel(ctx)); !errors.Is(err, lifecycle.ErrNotStarted) {
		return err
	}
	h.lifecycle.Abandon()
	return nil
}

// construct constructs the graph. It does not wait for functions that hang.
func (h *Hive) construct(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { h.graph.Interrupt(context.Cause(ctx)) })()
	overdue, err := lifecycle.Await(ctx, guard.Go(h.graph.Construct), func(since time.Duration) {
		h.options.Logger.Warn("Still waiting for a constructor", "constructor", h.graph.Calling(), "since", since)
	}, nil)
	if overdue {
		return h.graph.Overdue(err)
	}
	return err
}

// Stop stops the hive in reverse order of the start. It runs all stop hooks; after the deadline, their context is done.
func (h *Hive) Stop(ctx context.Context) error {
	if h.phase != started {
		return ErrNotStarted
	}
	h.phase = ended
	return h.stop(ctx)
}

func (h *Hive) stop(ctx context.Context) error {
	bounded, cancel := h.bounded(ctx, "stop", h.options.StopTimeout)
	defer cancel()
	defer h.log.Close()
	return h.lifecycle.Stop(bounded)
}

func (h *Hive) bounded(ctx context.Context, what string, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%s deadline of %v: %w", what, d, context.DeadlineExceeded))
}
