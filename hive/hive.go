// Package hive makes an application of cells: it builds, starts, watches over and stops it.
package hive

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive/cell"
)

// Options are the settings of a hive. Only Name is needed.
type Options struct {
	// Name of the application, such as "statehive".
	Name string
	// EnvPrefix begins the names of environment variables: with "STATEHIVE", --config-dir is STATEHIVE_CONFIG_DIR. Empty: the
	// upper-case name.
	EnvPrefix string
	// Logger is what module loggers are made of. Nil: text on standard error.
	Logger *slog.Logger
	// LookupEnv reads an environment variable. Nil: os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// StartTimeout and StopTimeout bound starting and stopping. 0: 1 minute and 30 seconds.
	StartTimeout, StopTimeout time.Duration
	// Signals ask Run to stop, the second one at once. Nil: SIGINT and SIGTERM of the process, while Run runs.
	Signals <-chan os.Signal
}

// Info says which application this is. It is injectable.
type Info struct {
	Name      string
	EnvPrefix string
}

// Shutdowner ends the hive from within. It is injectable and safe for concurrent use.
type Shutdowner interface {
	// Shutdown has Run stop the hive and return err, which may be nil. The first call counts.
	Shutdown(err error)
}

// Hive is an application made of cells. Its methods are for one goroutine at a time.
type Hive struct{}

var errUnfinished = errors.New("hive: not there yet")

// New builds a hive of cells. It constructs nothing yet.
func New(o Options, cells ...cell.Cell) (*Hive, error) { return nil, errUnfinished }

// Info returns the name and the prefix of environment variables.
func (h *Hive) Info() Info { return Info{} }

// RegisterFlags adds the flags of all cells. It fails if fs has a flag of the same name.
func (h *Hive) RegisterFlags(fs *pflag.FlagSet) error { return errUnfinished }

// Invoke calls fn with parameters from the graph, constructing what it needs, without starting anything.
func (h *Hive) Invoke(fn any) error { return errUnfinished }

// Start constructs and starts the hive.
func (h *Hive) Start(ctx context.Context) error { return errUnfinished }

// Stop stops the hive in reverse order of the start.
func (h *Hive) Stop(ctx context.Context) error { return errUnfinished }

// Run starts the hive, waits for a signal, the end of ctx or Shutdown, stops it and returns the error of Shutdown.
func (h *Hive) Run(ctx context.Context) error { return errUnfinished }
