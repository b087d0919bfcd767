package hivecell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/hivecell"
	"github.com/statehive/statehive/hive/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files anew")

type (
	engine  struct{}
	car     struct{}
	antique struct{}
	fuel    struct {
		Octane int    `flag:"octane"`
		Card   string `flag:"card" secret:"true"`
	}
	paint struct {
		Color string `flag:"color"`
	}
)

func newEngine(fuel) *engine   { return &engine{} }
func newCar(*engine) *car      { return &car{} }
func newAntique(*car) *antique { return &antique{} }

// newHive has a module of which two things are never used.
func newHive(t *testing.T) *hive.Hive {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "x.sock")
	return newHiveIn(t, map[string]string{"TEST_SOCKET": socket, "TEST_CARD": "hunter2", "TEST_OCTANE": "98"})
}

func newHiveIn(t *testing.T, vars map[string]string, more ...cell.Cell) *hive.Hive {
	t.Helper()
	h, err := hive.New(hive.Options{
		Name:      "test",
		Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
		LookupEnv: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
	},
		inspect.Cell(), hivecell.Cell(),
		cell.Module("garage", "where cars are",
			cell.Config(fuel{Octane: 95}), cell.Config(paint{Color: "red"}),
			cell.Provide(newEngine, newCar, newAntique),
			cell.Invoke(func(_ *car, l cell.Lifecycle) {
				l.Append(cell.Hook{Name: "doors", OnStart: func(context.Context) error { return nil }})
			}),
		),
		cell.Group(more...),
	)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func start(t *testing.T, h *hive.Hive) {
	t.Helper()
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func run(t *testing.T, h *hive.Hive, args ...string) (code int, out string) {
	t.Helper()
	root := &cobra.Command{Use: "test"}
	if err := cli.Mount(root, h); err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(t.Output())
	root.SetArgs(args)
	code = cli.Execute(t.Context(), root)
	return code, stdout.String()
}

func want(t *testing.T, out string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(out, p) {
			t.Errorf("no %q in:\n%s", p, out)
		}
	}
}

func TestModulesAreShownFromTheBinaryWithoutStarting(t *testing.T) {
	code, out := run(t, newHive(t), "hive", "--offline")
	want(t, out, "module garage: where cars are (hivecell/cell_test.go:", "  provide hivecell_test.newCar (hivecell/cell_test.go:",
		"    provides *hivecell_test.car\n    needs *hivecell_test.engine\n", "provide Config[hivecell_test.fuel]", "module inspect")
	if code != 0 || strings.Contains(out, "start order") || strings.Contains(out, "newModuleLifecycle") {
		t.Errorf("got %d\n%s", code, out)
	}
}

func TestRunningHiveShowsWhatStartedInWhichOrderAndHowLongItTook(t *testing.T) {
	h := newHive(t)
	start(t, h)
	code, out := run(t, h, "hive")
	want(t, out, "provide hivecell_test.newCar (hivecell/cell_test.go:", "\nstart order\n  1. ", "doors of garage (hivecell/cell_test.go:", "): ran, ")
	if code != 0 || strings.Index(out, "API socket of inspect") > strings.Index(out, "doors of garage") {
		t.Errorf("got %d\n%s", code, out)
	}
}

func TestHiveThatStopsShowsHowFarItIs(t *testing.T) {
	var h *hive.Hive
	out := ""
	h = newHiveIn(t, map[string]string{"TEST_SOCKET": filepath.Join(t.TempDir(), "x.sock")}, cell.Invoke(func(l cell.Lifecycle) {
		l.Append(cell.Hook{Name: "gate", OnStop: func(context.Context) error { _, out = run(t, h, "hive"); return nil }})
		none := func(context.Context) error { return nil }
		l.Append(cell.Hook{Name: "bell", OnStart: none, OnStop: none})
		l.Append(cell.Hook{Name: "lamp", OnStop: func(context.Context) error { return errors.New("out of reach") }})
	}))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.Stop(t.Context()); err == nil {
		t.Error("the failing hook was not reported")
	}
	for _, line := range []string{
		`doors of garage \(.*\): ran, `, `gate of test \(.*\): stopping\n`, `bell of test \(.*\): stopped, \S+ to start, \S+ to stop\n`,
		`lamp of test \(.*\): stopped, \S+ to stop: out of reach\n`,
	} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line like %s in:\n%s", line, out)
		}
	}
}

func TestWhoHasNoAgentIsToldOfTheBinary(t *testing.T) {
	h := newHive(t)
	root := &cobra.Command{Use: "test"}
	if err := cli.Mount(root, h); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	root.SetErr(&stderr)
	root.SetArgs([]string{"hive", "dot"})
	if code := cli.Execute(t.Context(), root); code != 1 {
		t.Errorf("got %d", code)
	}
	want(t, stderr.String(), "cannot reach the agent", "; with --offline this binary tells of itself\n")
}

func TestSettingsOfTheBinaryAreThoseOfTheFileThatIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("octane: 102\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := run(t, newHiveIn(t, nil), "hive", "config", "--offline", "--config", file)
	lines := strings.Join(strings.Fields(out), " ")
	want(t, lines, "octane 102 "+file+":1 garage", "config "+file+" flag test")
	if code != 0 {
		t.Errorf("got %d", code)
	}
}

func TestGraphIsWrittenForGraphviz(t *testing.T) {
	h := newHive(t)
	for _, args := range [][]string{{"hive", "dot", "--offline"}, {"hive", "dot"}} {
		code, out := run(t, h, args...)
		if code != 0 {
			t.Fatalf("got %d", code)
		}
		want(t, out, "digraph hive {", `label="garage"`, `hivecell_test.newCar (hivecell/cell_test.go:`, `style=dashed`)
		if strings.Count(out, "{") != strings.Count(out, "}") {
			t.Errorf("got %s", out)
		}
		edge := false
		for line := range strings.Lines(out) {
			from, to, ok := strings.Cut(line, " -> ")
			edge = edge || ok && strings.Contains(from, "newCar (") && strings.Contains(to, "newEngine (")
		}
		if !edge {
			t.Errorf("no arrow from car to engine:\n%s", out)
		}
		if args[len(args)-1] == "--offline" {
			start(t, h)
		}
	}
}

func TestOutputForPeopleAndToolsIsAsItWas(t *testing.T) {
	line, took := regexp.MustCompile(`\.go:\d+`), regexp.MustCompile(`, [0-9.]+(ns|µs|ms|s)\b`)
	for name, args := range map[string][]string{
		"hive": {"hive", "--offline"}, "dot": {"hive", "dot", "--offline"},
		"check": {"hive", "check", "--offline"}, "config": {"hive", "config", "--offline"},
	} {
		vars := map[string]string{"TEST_SOCKET": "/run/test.sock", "TEST_CARD": "hunter2"}
		_, out := run(t, newHiveIn(t, vars), args...)
		out = took.ReplaceAllString(line.ReplaceAllString(out, ".go:N"), ", TIME")
		file := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(golden), out); diff != "" {
			t.Errorf("%s (-want +got), to be written anew by -update:\n%s", name, diff)
		}
	}
}

func TestWhatNothingUsesIsFound(t *testing.T) {
	code, out := run(t, newHive(t), "hive", "check", "--offline")
	want(t, out, "garage: provide hivecell_test.newAntique (hivecell/cell_test.go:", "nothing uses *hivecell_test.antique\n",
		"garage: provide Config[hivecell_test.paint] (hivecell/cell_test.go:")
	if code != 1 || strings.Contains(out, "newCar") || strings.Contains(out, "fuel") || strings.Contains(out, "hivecell.command") {
		t.Errorf("got %d\n%s", code, out)
	}
}

func TestWhatIsProvidedForModulesAndUsedByNoneIsFoundOnce(t *testing.T) {
	type idle struct{}
	type busy struct{}
	newIdle, newBusy := func() *idle { return nil }, func() *busy { return nil }
	h := newHiveIn(t, nil, cell.Module("outer", "", cell.ProvideForModules(newIdle, newBusy),
		cell.Module("first", "", cell.Invoke(func(*busy) {})), cell.Module("second", "")))
	_, out := run(t, h, "hive", "check", "--offline")
	want(t, out, "outer: provide hivecell_test.TestWhatIsProvidedForModules", "nothing uses *hivecell_test.idle\n")
	if strings.Count(out, "*hivecell_test.idle") != 1 || strings.Contains(out, "busy") {
		t.Errorf("got\n%s", out)
	}
}

func TestWhatIsMissingIsFoundWithoutAnAgent(t *testing.T) {
	type member struct {
		cell.Out
		Member int `group:"members"`
	}
	h := newHiveIn(t, nil, cell.Module("broken", "",
		cell.Provide(func(*strings.Builder) *bytes.Buffer { return nil }, func() member { return member{} }),
		cell.Invoke(func(*bytes.Buffer) {}),
	))
	code, out := run(t, h, "hive", "check", "--offline")
	want(t, out, `module "broken" (hivecell/cell_test.go:`, "missing type *strings.Builder; needed by hivecell_test.TestWhatIsMissing",
		`nothing asks for the group of int group:"members"`)
	if code != 1 || strings.Contains(out, "everything") {
		t.Errorf("got %d\n%s", code, out)
	}
}

func TestSettingsAreShownWithTheirOriginAndSecretsAreNot(t *testing.T) {
	h := newHive(t)
	for _, args := range [][]string{{"hive", "config", "--offline"}, {"hive", "config"}} {
		code, out := run(t, h, args...)
		lines := strings.Join(strings.Fields(out), " ")
		want(t, lines, "octane 98 environment variable TEST_OCTANE garage", "color red default garage", "card (redacted) environment variable TEST_CARD")
		if code != 0 || strings.Contains(out, "hunter2") {
			t.Errorf("got %d\n%s", code, out)
		}
		if args[len(args)-1] == "--offline" {
			start(t, h)
		}
	}
	var all []cell.Setting
	if _, out := run(t, h, "hive", "config", "-o", "json"); json.Unmarshal([]byte(out), &all) != nil || len(all) != 5 {
		t.Errorf("got %s", out)
	}
}
