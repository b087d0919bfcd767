package hivetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
)

// Scripts are txtar files that use an application as people do, each a test of its own. What can be in them says the package
// testscript of github.com/rogpeppe/go-internal; besides there are:
//
//   - agent start [FLAG...] starts the hive, with settings as from a command line; agent stop stops it. Both may be negated: then
//     they have to fail, and what they fail with is their standard error. A hive that is not stopped is stopped at the end.
//   - agent insert TABLE FILE writes rows of a table that is writable by name, all or none: JSON objects one after another, or arrays of
//     them; agent delete TABLE KEY deletes one.
//   - agent show TABLE [COLUMN...] writes the rows, with all columns or those that are named; `cmp stdout FILE` compares them with a
//     golden file. agent compare TABLE FILE compares them with what show has written to a file, whose first line names the
//     columns; how many spaces are between columns makes no difference.
//   - agent watch TABLE CHANGES writes a line for each row that is new, has changed ("+") or is gone ("-") since the last watch of the
//     table, and waits up to 10 s until there are as many. Of a row that changed several times it sees the last.
//   - agent COMMAND ARG... runs a command that a cell contributes (see NewCommand).
//   - NAME ARG..., where NAME is that of the hive, is the hive's command line: the very commands of its binary.
//   - within TIME succeeds|fails COMMAND... and within TIME shows|hides REGEXP COMMAND... try such a command line, or
//     a command of the agent, again and again until it does so.
//
// The environment of a script is that of the hive and of its commands; a variable that is empty is not set. The log is shown if the script fails.
type Scripts struct {
	// Dir has the scripts, as *.txtar.
	Dir string
	// Name of the hive. Empty: "test".
	Name string
	// Cells are what the hive is made of, a new one for each start.
	Cells []cell.Cell
	// Update has files in scripts that `cmp` finds to differ written anew, such as what a command is to print. A test has this from
	// a flag of its own.
	Update bool
}

// Run runs the scripts as parallel tests below t.
func (s Scripts) Run(t *testing.T) {
	t.Helper()
	if s.Name == "" {
		s.Name = "test"
	}
	testscript.Run(t, testscript.Params{
		Dir: s.Dir, UpdateScripts: s.Update, RequireUniqueNames: true, RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error { return s.setUp(t.Context(), env) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"agent": agentCommand, s.Name: lineCommand, "within": withinCommand,
		},
	})
}

// worldKey is under what a script keeps its world.
type worldKey struct{}

// world is what a script works on.
type world struct {
	ctx     context.Context //nolint:containedctx // testscript hands none to its commands
	scripts Scripts
	log     log
	getenv  func(string) string // of the script as it is now
	abs     func(string) string // path of a file of the script
	hive    *hive.Hive          // nil while none is started

	commands map[string]Command // of the hive that is started
}

func worldOf(ts *testscript.TestScript) *world {
	w := ts.Value(worldKey{}).(*world)
	w.getenv, w.abs = ts.Getenv, ts.MkAbs
	return w
}

// setUp gives the script a world, and its API a socket of its own: the script's directory can be too long for one.
func (s Scripts) setUp(ctx context.Context, env *testscript.Env) error {
	w := &world{ctx: ctx, scripts: s, getenv: env.Getenv}
	h, err := w.build()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "script")
	if err != nil {
		return err
	}
	if name, _, _ := h.Env("socket"); hasFlag(h, "socket") {
		env.Setenv(name, filepath.Join(dir, "api.sock"))
	}
	env.Values[worldKey{}] = w
	env.Defer(func() { w.end(env.T(), dir) })
	return nil
}

func hasFlag(h *hive.Hive, name string) bool {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	return h.RegisterFlags(flags) == nil && flags.Lookup(name) != nil
}

func (w *world) end(t testscript.T, dir string) {
	err := errors.Join(w.stop(), os.RemoveAll(dir))
	if failed, ok := t.(interface{ Failed() bool }); err != nil || ok && failed.Failed() {
		t.Log("the log of the hive:\n" + w.log.String())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// build makes a hive that is not started.
func (w *world) build() (*hive.Hive, error) {
	logger := slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	getenv := w.getenv
	lookup := func(name string) (string, bool) { v := getenv(name); return v, v != "" }
	return hive.New(hive.Options{Name: w.scripts.Name, Logger: logger, LookupEnv: lookup}, append(slices.Clone(w.scripts.Cells), cell.Invoke(w.collect))...)
}

func (w *world) start(args []string) error {
	if w.hive != nil {
		return errors.New("the hive is started already")
	}
	h, err := w.build()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("agent start", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	// The process that runs a hive has its commands as well.
	line := &cobra.Command{Use: h.Info().Name}
	if err := errors.Join(h.RegisterFlags(flags), flags.Parse(args), cli.Mount(line, h)); err != nil {
		return err
	}
	if err := h.Start(w.ctx); err != nil {
		return err
	}
	w.hive = h
	return nil
}

// stop stops the hive, if it is started.
func (w *world) stop() error {
	if w.hive == nil {
		return nil
	}
	h := w.hive
	w.hive = nil
	return h.Stop(context.WithoutCancel(w.ctx))
}

// result is what a command line has written, and its exit code.
type result struct {
	code           int
	stdout, stderr string
	err            error // it could not be run
}

// run runs a command line with a hive of its own, as another process would.
func (w *world) run(args []string) result {
	h, err := w.build()
	if err != nil {
		return result{err: err}
	}
	return runLine(w.ctx, h, args)
}

func runLine(ctx context.Context, h *hive.Hive, args []string) result {
	var stdout, stderr bytes.Buffer
	root := &cobra.Command{Use: h.Info().Name}
	if err := cli.Mount(root, h); err != nil {
		return result{err: err}
	}
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(args)
	code := cli.Execute(ctx, root)
	return result{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// failure says how the command line has failed, if it has.
func (r result) failure() error {
	if r.err == nil && r.code != 0 {
		return fmt.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	return r.err
}

// log may be written by many.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is what has been written.
func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
