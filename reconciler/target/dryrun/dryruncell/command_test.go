package dryruncell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/source/filecell"
	"github.com/statehive/statehive/reconciler/target/dryrun/dryruncell"
	"github.com/statehive/statehive/reconciler/target/kindcell"
	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type lamp struct {
	Name   string            `yaml:"name"`
	Color  string            `yaml:"color"`
	Status reconciler.Status `yaml:"-"`
}

func (l lamp) GetStatus() reconciler.Status        { return l.Status }
func (l lamp) WithStatus(s reconciler.Status) lamp { l.Status = s; return l }

// system is a target, all of whose lamps are ours. It takes no changes: an agent is to have
// nothing to apply.
type system struct {
	reconciler.NoInit
	reconciler.NoPrune[lamp]

	t      *testing.T
	colors map[string]string
}

func (s system) Update(_ context.Context, _ statedb.ReadTxn, l lamp) (reconciler.Result, error) {
	if s.colors[l.Name] != l.Color {
		s.t.Errorf("%s is updated", l.Name)
	}
	return reconciler.Result{}, nil
}

func (s system) Delete(_ context.Context, _ statedb.ReadTxn, l lamp) error {
	s.t.Errorf("%s is deleted", l.Name)
	return nil
}

func (s system) Diff(_ context.Context, _ statedb.ReadTxn, l lamp) ([]reconciler.Change, error) {
	if s.colors[l.Name] == l.Color {
		return nil, nil
	}
	return []reconciler.Change{{Field: "color", Is: s.colors[l.Name], Want: l.Color}}, nil
}

func (s system) Observe(context.Context) iter.Seq2[lamp, error] {
	return func(yield func(lamp, error) bool) {
		for name := range s.colors {
			if !yield(lamp{Name: name}, nil) {
				return
			}
		}
	}
}

// app is a program with the kind, whose agent reads one directory.
type app struct {
	t           *testing.T
	dir, socket string
	system      system
}

func (a *app) hive(source **file.Source) *hive.Hive {
	a.t.Helper()
	settings := map[string]string{"APP_SOCKET": a.socket, "APP_CONFIG_DIR": a.dir}
	h, err := hive.New(
		hive.Options{
			Name: "app", Logger: slog.New(slog.NewTextHandler(a.t.Output(), nil)),
			LookupEnv: func(name string) (string, bool) { value, ok := settings[name]; return value, ok },
		},
		inspect.Cell(), filecell.Cell(), reconcilercell.Cell(), dryruncell.Cell(),
		kindcell.Cell(
			kindcell.Kind[lamp]{
				Name: "lamp", Title: "lamps", KeyField: "name", Default: func() lamp { return lamp{} }, Normalized: func(l lamp) (lamp, error) { return l, nil },
				Schema: reconciler.Reconciled(statedb.Schema[lamp]{Name: "lamps", Primary: statedb.NewIndex("name", func(l lamp) string { return l.Name })}),
			},
			cell.ProvidePrivate(func(mode *dryruncell.Mode) reconciler.Target[lamp] {
				if mode.ReadOnly() == (source != nil) {
					a.t.Errorf("the mode is read-only: %v", mode.ReadOnly())
				}
				return a.system
			}),
		),
		cell.Invoke(func(s *file.Source) {
			if source != nil {
				*source = s
			}
		}),
	)
	if err != nil {
		a.t.Fatal(err)
	}
	return h
}

func newApp(t *testing.T, colors map[string]string) *app {
	t.Helper()
	return &app{t: t, dir: t.TempDir(), socket: filepath.Join(t.TempDir(), "s"), system: system{t: t, colors: colors}}
}

// write writes a file of documents, and returns its path.
func (a *app) write(dir, text string) string {
	a.t.Helper()
	path := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// run runs a command, and returns what it prints and its exit code.
func (a *app) run(args ...string) (out string, code int) {
	a.t.Helper()
	var b bytes.Buffer
	root := &cobra.Command{Use: "app"}
	if err := cli.Mount(root, a.hive(nil)); err != nil {
		a.t.Fatal(err)
	}
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetArgs(args)
	code = cli.Execute(a.t.Context(), root)
	return b.String(), code
}

func (a *app) want(code int, text string, args ...string) {
	a.t.Helper()
	if out, got := a.run(args...); got != code || out != text {
		a.t.Errorf("%q: exit code %d, expected %d:\n%s\nexpected:\n%s", args, got, code, out, text)
	}
}

func TestThePlanOfACommandThatLooksItself(t *testing.T) {
	a := newApp(t, map[string]string{"desk": "red", "gone": "red"})
	wanted := t.TempDir()
	path := a.write(wanted, "kind: lamp\nname: desk\ncolor: red\n")
	a.want(2, "- lamp gone\n\nPlan: 0 to create, 0 to change, 1 to delete.\n", "plan", "-f", path)
	a.write(wanted, "kind: lamp\nname: desk\ncolor: blue\n---\nkind: lamp\nname: wall\ncolor: red\n---\nkind: lamp\nname: gone\n")
	a.want(2, "~ lamp desk\n    color: red → blue\n~ lamp gone\n    color: red → none\n+ lamp wall\n    color: red\n\nPlan: 1 to create, 2 to change, 0 to delete.\n",
		"plan", "-f", wanted)
	a.write(wanted, "kind: lamp\nname: desk\ncolor: red\n---\nkind: lamp\nname: gone\ncolor: red\n")
	a.want(0, "Plan: nothing to do, 2 rows are as they should be.\n", "plan", "-f", wanted)
	a.want(2, "- lamp desk\n- lamp gone\n\nPlan: 0 to create, 0 to change, 2 to delete.\n", "plan", "-f", t.TempDir())

	// What is wrong with documents is told as `validate` does, and there is no plan.
	a.write(wanted, "kind: lamp\nname: desk\nname: wall\n")
	problem, code := a.run("validate", wanted)
	problem, _, _ = strings.Cut(problem, "\n")
	if code != 1 || problem == "" {
		t.Errorf("exit code %d, %q", code, problem)
	}
	a.want(1, problem+"\nNo plan: the documents are not valid.\n", "plan", "-f", wanted)
	if out, code := a.run("plan", "-f", wanted, "-o", "json"); code != 1 || !strings.Contains(out, `"operations": []`) {
		t.Errorf("exit code %d, %s", code, out)
	}
	if out, code := a.run("plan", "-f", "/none"); code != 1 || !strings.Contains(out, `"/none" cannot be read`) {
		t.Errorf("exit code %d, %s", code, out)
	}
}

func TestThePlanOfAnAgentHasItsFilters(t *testing.T) {
	a := newApp(t, map[string]string{"desk": "red"})
	a.write(a.dir, "kind: lamp\nname: desk\ncolor: red\n")
	var source *file.Source
	h := a.hive(&source)
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	path := a.write(t.TempDir(), "kind: lamp\nname: desk\ncolor: red\n---\nkind: lamp\nname: wall\n")
	type answer struct{ Unchanged, Process int }
	plan := func(args ...string) (got answer, code int) {
		t.Helper()
		out, code := a.run(slices.Concat([]string{"plan", "-f", path, "-o", "json"}, args)...)
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return got, code
	}
	// The wall has no color, as what is not there has none.
	if got, code := plan(); code != 0 || got.Process != os.Getpid() || got.Unchanged != 2 {
		t.Errorf("exit code %d, %+v", code, got)
	}
	if err := file.SetFilter(source, "lamp", func(l lamp) bool { return l.Name != "wall" }); err != nil {
		t.Fatal(err)
	}
	if got, code := plan(); code != 0 || got.Process != os.Getpid() || got.Unchanged != 1 {
		t.Errorf("with a filter: exit code %d, %+v", code, got)
	}
	if got, code := plan("--without-agent"); code != 0 || got.Process != 0 || got.Unchanged != 2 {
		t.Errorf("without the agent: exit code %d, %+v", code, got)
	}
}
