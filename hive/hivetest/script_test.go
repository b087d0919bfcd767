package hivetest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/health/healthcell"
	"github.com/statehive/statehive/hive/hivecell"
	"github.com/statehive/statehive/hive/hivetest"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
)

var (
	update = flag.Bool("update", false, "write the golden files in scripts anew")
	dir    = flag.String("scripts", "testdata", "directory of scripts; for a test that runs this one")
)

type greeting struct {
	Text string `flag:"greeting"`
}

func (g greeting) Validate() error {
	if g.Text == "" {
		return errors.New("nothing to say")
	}
	return nil
}

// greeterCell is well only a little after the start, and has a command.
func greeterCell() cell.Cell {
	return cell.Module("greeter", "says something",
		cell.Config(greeting{Text: "good day"}),
		cell.Invoke(func(g greeting, jobs job.Group, h health.Health) error {
			return jobs.Add(job.OneShot("greet", func(context.Context, health.Health) error {
				h.OK("said " + g.Text)
				return nil
			}))
		}),
		cell.Provide(func() cli.CommandOut {
			return cli.NewCommand(func(*cli.Env) *cobra.Command {
				return &cobra.Command{Use: "words", RunE: func(c *cobra.Command, _ []string) error {
					return cli.WriteTable(c.OutOrStdout(), []string{"WORD"}, [][]string{{"one"}, {"two"}})
				}}
			})
		}),
	)
}

type note struct {
	Name, Text string
	Stars      int
}

// notesCell has a table that is written by name, and a command for scripts that writes it, a little later.
func notesCell() cell.Cell {
	return cell.Module("notes", "a table",
		cell.Provide(func(db *statedb.DB) (*statedb.RWTable[note], error) {
			return statedb.NewTable(db, statedb.Schema[note]{
				Name: "notes", Primary: statedb.NewIndex("name", func(n note) string { return n.Name }), WritableByName: true,
			})
		}),
		cell.Provide(func(db *statedb.DB, table *statedb.RWTable[note], jobs job.Group) hivetest.CommandOut {
			return hivetest.NewCommand("note", "TEXT", func(_ context.Context, call *hivetest.Call) error {
				if len(call.Args) != 1 {
					return errors.New("expected a text")
				}
				fmt.Fprintln(call.Stdout, "noting")
				return jobs.Add(job.OneShot("note", func(ctx context.Context, _ health.Health) error {
					return db.Update(ctx, func(txn *statedb.WriteTxn) error {
						_, _, err := table.Insert(txn, note{Name: "later", Text: call.Args[0]})
						return err
					}, table)
				}))
			})
		}),
	)
}

// newFail returns a command for scripts that does not return.
func newFail() hivetest.CommandOut {
	return hivetest.NewCommand("fail", "panic|goexit", func(_ context.Context, call *hivetest.Call) error {
		if call.Args[0] == "goexit" {
			runtime.Goexit()
		}
		panic("on purpose")
	})
}

func TestScripts(t *testing.T) {
	cells := []cell.Cell{cell.Provide(newFail), inspect.Cell(), healthcell.Cell(), hivecell.Cell(), greeterCell(), notesCell()}
	hivetest.Scripts{Dir: *dir, Cells: cells, Update: *update}.Run(t)
}

// runScript runs a script in a test of its own, which may fail.
func runScript(t *testing.T, text string, flags ...string) (output, after string, err error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a.txtar")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-test.run=^TestScripts$", "-scripts=" + filepath.Dir(name)}, flags...)
	out, err := exec.CommandContext(t.Context(), os.Args[0], args...).CombinedOutput()
	written, readErr := os.ReadFile(name)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return string(out), string(written), err
}

func TestFailingScriptSaysWhatItWaitedForAndShowsTheLog(t *testing.T) {
	const start = "agent start\nwithin 30s shows greeter test health\n"
	for script, want := range map[string][]string{
		start + "within 50ms shows nonsense test health\n": {"not within 50ms: nonsense", "greeter", "the log of the hive:", "Serving the API"},
		start + "within 50ms hides greeter test health\n":  {"not within 50ms: greeter"},
		start + "within 50ms fails test health\n":          {"not within 50ms: it succeeds"},
		"within 50ms succeeds test health\n":               {"not within 50ms: exit code 1", "cannot reach the agent"},
		start + "! test health\n":                          {"unexpected success"},
		"test health\n":                                    {"exit code 1", "cannot reach the agent"},
		"agent dance\n":                                    {"usage: agent start"},
		"within 1s sings test health\n":                    {`unknown expectation "sings"`},
		"within 1s shows ( test health\n":                  {"error parsing regexp"},
		"within 1s succeeds exec true\n":                   {`expected one that begins with test or agent, got ["exec" "true"]`},
		"within 1s succeeds agent stop\n":                  {`expected one that begins with test or agent, got ["agent" "stop"]`},
		"agent show notes\n":                               {"agent show: the hive is not started"},
		"agent start\nagent dance\n":                       {"unknown command: agent dance; there are:", "agent show TABLE [COLUMN...]", "agent note TEXT", "agent stop"},
		"agent start\nagent show\n":                        {"usage: agent show TABLE [COLUMN...]"},
		"agent start\n! agent show notes\n":                {"unexpected success"},
		"agent start\nagent watch notes some\n":            {"usage: agent watch TABLE CHANGES"},
		"agent start\nwithin 50ms succeeds agent compare notes want\n-- want --\nName\na\n": {
			"not within 50ms", "--- want\n", "+++ table notes\n", "-a\n",
		},
	} {
		out, _, err := runScript(t, script)
		if err == nil {
			t.Errorf("%q succeeded", script)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%q: no %q in:\n%s", script, w, out)
			}
		}
	}
}

func TestGoldenFilesOfScriptsAreUpdatedWhenAsked(t *testing.T) {
	script := "test words\ncmp stdout golden\n-- golden --\n"
	if out, after, err := runScript(t, script); err == nil || after != script {
		t.Errorf("not asked: got %v\n%s\n%s", err, out, after)
	}
	out, after, err := runScript(t, script, "-update")
	if err != nil || after != script+"WORD\none\ntwo\n" {
		t.Errorf("asked: got %v\n%s\n%s", err, out, after)
	}
}
