package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestSandbox(t *testing.T) {
	t.Parallel()
	for _, who := range users() {
		t.Run(who.name, func(t *testing.T) {
			t.Parallel()
			runScripts(t, "testdata/sandbox", who, func(context.Context, *world) error { return nil })
		})
	}
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/namespace", user{name: "self"}, func(ctx context.Context, w *world) error { return w.isolate(ctx) })
}

// worldKey is under what a script keeps its world.
type worldKey struct{}

func runScripts(t *testing.T, dir string, who user, prepare func(context.Context, *world) error) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Others have to get to their directories.
			if err := os.Chmod(filepath.Dir(env.WorkDir), 0o755); err != nil {
				return err
			}
			w, err := newWorld(env.WorkDir, who)
			if err != nil {
				return err
			}
			env.Values[worldKey{}] = w
			env.Setenv("PROGRAM", program())
			env.Setenv("TABLES", os.Getenv(tablesVariable))
			env.Defer(func() { closeAfterScript(env.T(), w) })
			return prepare(t.Context(), w)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"agent":       agentCommand,
			"within":      withinCommand,
			"full-passes": fullPassesCommand,
			"edit":        editCommand,
			"statehive":   plainCommand("statehive"),
			"all-done":    plainCommand("all-done"),
			"inside":      plainCommand("inside"),
			"metrics":     plainCommand("metrics"),
			"log":         plainCommand("log"),
		},
	})
}

func closeAfterScript(t testscript.T, w *world) {
	err := w.close()
	if failed, ok := t.(interface{ Failed() bool }); err != nil || ok && failed.Failed() {
		log, _ := os.ReadFile(w.log()) // there is none if no agent was started
		t.Log("the agent's log:\n" + string(log))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func positive(ts *testscript.TestScript, negative bool) {
	if negative {
		ts.Fatalf("this command cannot be negated")
	}
}

func agentCommand(ts *testscript.TestScript, negative bool, args []string) {
	positive(ts, negative)
	w := worldOf(ts)
	switch {
	case len(args) >= 1 && args[0] == "refused":
		r := w.statehive(context.Background(), append(append([]string{"agent"}, w.flags()...), args[1:]...)...)
		show(ts, r)
		var exit *exec.ExitError
		if !errors.As(r.err, &exit) || exit.ExitCode() != 1 {
			ts.Fatalf("it ended with %v, expected exit code 1", r.err)
		}
	case len(args) >= 1 && args[0] == "start":
		ts.Check(w.start(context.Background(), args[1:]...))
	case len(args) == 1 && args[0] == "stop":
		ts.Check(w.stop())
	case len(args) == 1 && args[0] == "reload":
		ts.Check(w.reload())
	case len(args) == 1 && args[0] == "kill":
		ts.Check(w.kill())
	default:
		ts.Fatalf("usage: agent start [FLAG...] | stop | reload | kill | refused [FLAG...]")
	}
}

// perform runs one of the commands that can be repeated.
func (w *world) perform(ctx context.Context, args []string) result {
	switch args[0] {
	case "statehive":
		return w.statehive(ctx, args[1:]...)
	case "inside":
		return w.inside(ctx, args[1:]...)
	case "all-done":
		return w.allDone(ctx)
	case "metrics":
		return w.scrape(ctx, "/metrics").lines(strings.Join(append([]string{"^[^#]"}, args[1:]...), ".*"))
	case "log":
		text, err := os.ReadFile(w.log())
		return result{stdout: string(text), err: err}
	}
	return result{err: fmt.Errorf("unknown command %q: expected statehive, inside, all-done, metrics or log", args[0])}
}

// lines returns the result with only those lines of the output that match.
func (r result) lines(pattern string) result {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		r.err = errors.Join(r.err, err)
		return r
	}
	var kept strings.Builder
	for line := range strings.Lines(r.stdout) {
		if wanted.MatchString(line) {
			kept.WriteString(line)
		}
	}
	r.stdout = kept.String()
	return r
}

func plainCommand(name string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, negative bool, args []string) {
		r := worldOf(ts).perform(context.Background(), append([]string{name}, args...))
		show(ts, r)
		switch {
		case negative && r.err == nil:
			ts.Fatalf("unexpected success")
		case !negative:
			ts.Check(r.err)
		}
	}
}

// show makes the output that of the script's last command.
func show(ts *testscript.TestScript, r result) {
	fmt.Fprint(ts.Stdout(), r.stdout)
	fmt.Fprint(ts.Stderr(), r.stderr)
}

var errSucceeds = errors.New("it succeeds")

func withinCommand(ts *testscript.TestScript, negative bool, args []string) {
	positive(ts, negative)
	if len(args) < 3 {
		ts.Fatalf("usage: within TIME succeeds|fails|shows REGEXP|hides REGEXP COMMAND...")
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	check, command, err := expectation(args[1:])
	ts.Check(err)
	var last result
	err = until(context.Background(), limit, func(ctx context.Context) error {
		last = worldOf(ts).perform(ctx, command)
		return check(last)
	})
	show(ts, last)
	ts.Check(err)
}

// expectation returns what a command's result is checked for, and the command.
func expectation(args []string) (check func(result) error, command []string, err error) {
	switch args[0] {
	case "succeeds":
		return func(r result) error { return r.err }, args[1:], nil
	case "fails":
		return func(r result) error {
			if r.err == nil {
				return errSucceeds
			}
			return nil
		}, args[1:], nil
	}
	wanted, known := map[string]bool{"shows": true, "hides": false}[args[0]]
	if !known || len(args) < 3 {
		return nil, nil, fmt.Errorf("unknown expectation %q", args)
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	return func(r result) error {
		if pattern.MatchString(r.String()) != wanted {
			return fmt.Errorf("%s %s: %w", args[0], args[1], errors.Join(r.err, errors.New("it does not")))
		}
		return nil
	}, args[2:], err
}

func fullPassesCommand(ts *testscript.TestScript, negative bool, _ []string) {
	positive(ts, negative)
	ts.Check(worldOf(ts).fullPasses(context.Background()))
}

func editCommand(ts *testscript.TestScript, negative bool, args []string) {
	positive(ts, negative)
	if len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	ts.Check(edit(ts.MkAbs(args[0]), args[1], args[2]))
}

// fullPasses waits until every reconciler has begun and ended a full pass.
func (w *world) fullPasses(ctx context.Context) error {
	before, err := w.counter(ctx, "full_total")
	if err != nil {
		return err
	}
	return until(ctx, patience, func(ctx context.Context) error {
		now, err := w.counter(ctx, "full_total")
		for name := range before {
			if now[name] < before[name]+2 {
				err = errors.Join(err, fmt.Errorf("%s: %v full passes, expected two more than %v", name, now[name], before[name]))
			}
		}
		return err
	})
}
