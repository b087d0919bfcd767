package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newHive(t *testing.T, vars map[string]string, cells ...cell.Cell) *hive.Hive {
	t.Helper()
	h, err := hive.New(hive.Options{
		Name:      "test-app",
		Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
		LookupEnv: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
	}, cells...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func command(name string, run func(cmd *cobra.Command, env *cli.Env) error) cell.Cell {
	return cell.Provide(func() cli.CommandOut {
		return cli.NewCommand(func(env *cli.Env) *cobra.Command {
			c := &cobra.Command{Use: name, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, env) }}
			c.Flags().Int("depth", 0, "")
			return c
		})
	})
}

// execute mounts the hive's commands on a root of its own and runs one.
func execute(t *testing.T, h *hive.Hive, args ...string) (code int, out, errs string) {
	t.Helper()
	root := &cobra.Command{Use: "test-app"}
	if err := cli.Mount(root, h); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(args)
	code = cli.Execute(t.Context(), root)
	return code, stdout.String(), stderr.String()
}

func printSocket(cmd *cobra.Command, env *cli.Env) error {
	socket, err := env.Socket()
	return errors.Join(err, printTo(cmd, socket))
}

func printTo(cmd *cobra.Command, text string) error {
	_, err := fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}

func TestSocketIsFoundInTheFileOfSettingsWhateverElseIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("socket: /file\nnonsense: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"TEST_APP_CONFIG": file}
	cells := []cell.Cell{inspect.Cell(), command("where", printSocket)}
	if code, out, errs := execute(t, newHive(t, vars, cells...), "where"); code != 0 || out != "/file" {
		t.Errorf("got %d %q %q", code, out, errs)
	}
	vars["TEST_APP_SOCKET"] = "/environment"
	if _, out, _ := execute(t, newHive(t, vars, cells...), "where"); out != "/environment" {
		t.Errorf("got %q", out)
	}
}

func TestSocketIsFoundInTheFileOfSettingsThatAFlagNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("socket: /file\nnonsense: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"TEST_APP_CONFIG": "/none.yaml"}
	for _, args := range [][]string{{"where", "--config=" + file}, {"--config", file, "where"}} {
		if code, out, errs := execute(t, newHive(t, vars, inspect.Cell(), command("where", printSocket)), args...); code != 0 || out != "/file" {
			t.Errorf("%v: got %d %q %q", args, code, out, errs)
		}
	}
}

func TestSocketIsThatOfTheFlagElseOfTheEnvironmentElseTheDefault(t *testing.T) {
	vars := map[string]string{"TEST_APP_SOCKET": "/env"}
	for _, tt := range []struct {
		vars map[string]string
		args []string
		want string
	}{
		{vars, []string{"where", "--socket=/flag"}, "/flag"},
		{vars, []string{"--socket=/flag", "where"}, "/flag"},
		{vars, []string{"where"}, "/env"},
		{nil, []string{"where"}, inspect.DefaultSocket("test-app")},
		{map[string]string{"TEST_APP_SOCKET": ""}, []string{"where"}, inspect.DefaultSocket("test-app")},
		{vars, []string{"where", "--socket="}, inspect.DefaultSocket("test-app")},
	} {
		if code, out, errs := execute(t, newHive(t, tt.vars, command("where", printSocket)), tt.args...); code != 0 || out != tt.want {
			t.Errorf("%v: got %d %q %q", tt.args, code, out, errs)
		}
	}
}

func TestCommandThatRunsTheHiveHasTheSameFlagForItself(t *testing.T) {
	for _, args := range [][]string{{"agent", "--socket=/flag"}, {"--socket=/flag", "agent"}} {
		var got inspect.Config
		h := newHive(t, map[string]string{"TEST_APP_SOCKET": "/env"}, cell.Config(inspect.Config{}), cell.Invoke(func(c inspect.Config) { got = c }))
		agent := &cobra.Command{Use: "agent", RunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(h.Start(cmd.Context()), h.Stop(cmd.Context()))
		}}
		root := &cobra.Command{Use: "test-app"}
		root.AddCommand(agent)
		if err := errors.Join(h.RegisterFlags(agent.Flags()), cli.Mount(root, h)); err != nil {
			t.Fatal(err)
		}
		root.SetArgs(args)
		if code := cli.Execute(t.Context(), root); code != 0 || got.Socket != "/flag" {
			t.Errorf("%v: got %d %+v", args, code, got)
		}
	}
}

func TestErrorsAreOneLineAndExitCodesAreThoseOfTheCommand(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		code int
		errs string
	}{
		"none":              {nil, 0, ""},
		"error":             {errors.New("no such table"), 1, "test-app: no such table\n"},
		"code":              {&cli.ExitError{Code: 3}, 3, ""},
		"code with error":   {&cli.ExitError{Code: 4, Err: errors.New("half done")}, 4, "test-app: half done\n"},
		"wrapped exit code": {fmt.Errorf("x: %w", &cli.ExitError{Code: 5}), 5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHive(t, nil, command("do", func(*cobra.Command, *cli.Env) error { return tt.err }))
			code, out, errs := execute(t, h, "do")
			if code != tt.code || errs != tt.errs || out != "" {
				t.Errorf("got %d %q %q", code, out, errs)
			}
		})
	}
}

func TestMistypedCommandLineSaysWhereTheHelpIs(t *testing.T) {
	h := newHive(t, nil, command("do", func(*cobra.Command, *cli.Env) error { return nil }))
	for flag, want := range map[string]string{
		"--dept=1":   "unknown flag: --dept: there is --depth",
		"--detph=1":  "unknown flag: --detph: there is --depth",
		"--hepl":     "unknown flag: --hepl: there is --help",
		"--nonsense": "unknown flag: --nonsense",
		"-x":         "unknown shorthand flag: 'x' in -x",
	} {
		if code, _, errs := execute(t, h, "do", flag); code != 1 || errs != "test-app: "+want+"; see 'test-app do --help'\n" {
			t.Errorf("got %d %q", code, errs)
		}
	}
	if code, _, errs := execute(t, h, "dont"); code != 1 || !strings.HasPrefix(errs, `test-app: unknown command "dont" for "test-app"`) {
		t.Errorf("got %d %q", code, errs)
	}
}

func TestAgentThatIsNotThereIsSaidWithWhatToDo(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none.sock")
	h := newHive(t, nil, command("ask", func(cmd *cobra.Command, env *cli.Env) error {
		return env.Client().Get(cmd.Context(), "/v1/agent", nil, new(any))
	}))
	code, _, errs := execute(t, h, "ask", "--socket", socket)
	want := "test-app: cannot reach the agent at " + socket +
		": there is no such socket; start it, or name its socket with --socket or TEST_APP_SOCKET, or its settings with --config\n"
	if code != 1 || errs != want {
		t.Errorf("got %d %q", code, errs)
	}
	agent := command("agent", func(*cobra.Command, *cli.Env) error { return nil })
	h = newHive(t, nil, agent, command("ask", func(cmd *cobra.Command, env *cli.Env) error {
		return env.Client().Get(cmd.Context(), "/v1/agent", nil, new(any))
	}))
	if _, _, errs := execute(t, h, "ask", "--socket", socket); !strings.Contains(errs, "; start it with 'test-app agent', or") {
		t.Errorf("with an agent command: %q", errs)
	}
}

func section(name string, order int, text string, healthy bool, err error) cell.Cell {
	return cell.Provide(func() cli.StatusSectionOut {
		return cli.NewStatusSection(cli.StatusSection{
			Name: name, Order: order,
			Show: func(_ context.Context, _ *inspect.Client, w io.Writer) (bool, error) {
				_, _ = io.WriteString(w, text)
				return healthy, err
			},
		})
	})
}

func TestStatusShowsSectionsInOrder(t *testing.T) {
	h := newHive(t, nil, section("c", 30, "third\n", true, nil), section("b", 20, "", true, nil), section("a", 10, "first\n", true, nil))
	if code, out, errs := execute(t, h, "status"); code != 0 || out != "first\n\nthird\n" || errs != "" {
		t.Errorf("got %d %q %q", code, out, errs)
	}
}

func TestStatusIsUnhealthyIfASectionIs(t *testing.T) {
	h := newHive(t, nil, section("a", 1, "bad\n", false, nil), section("b", 2, "fine\n", true, nil))
	if code, out, errs := execute(t, h, "status"); code != 1 || out != "bad\n\nfine\n" || errs != "" {
		t.Errorf("got %d %q %q", code, out, errs)
	}
}

func TestStatusShowsTheOtherSectionsIfOneFails(t *testing.T) {
	h := newHive(t, nil, section("a", 1, "", true, errors.New("broken")), section("b", 2, "fine\n", true, nil))
	if code, out, errs := execute(t, h, "status"); code != 1 || out != "fine\n" || errs != "test-app: a: broken\n" {
		t.Errorf("got %d %q %q", code, out, errs)
	}
}

func TestStatusAndErrorsCannotDisturbATerminal(t *testing.T) {
	h := newHive(t, nil, section("a", 1, "one\x1b[2J\n\ttwo\n", true, errors.New("bad\x1b]0;title\a\nmore")))
	if _, out, errs := execute(t, h, "status"); out != "one [2J\n two\n" || errs != "test-app: a: bad ]0;title \nmore\n" {
		t.Errorf("got %q %q", out, errs)
	}
}

func TestStatusOfAnAgentThatIsNotThereIsSaidOnce(t *testing.T) {
	ask := func(name string) cell.Cell {
		return cell.Provide(func() cli.StatusSectionOut {
			return cli.NewStatusSection(cli.StatusSection{Name: name, Show: func(ctx context.Context, c *inspect.Client, _ io.Writer) (bool, error) {
				return true, c.Get(ctx, "/v1/agent", nil, new(any))
			}})
		})
	}
	code, _, errs := execute(t, newHive(t, map[string]string{"TEST_APP_SOCKET": "/nowhere"}, ask("a"), ask("b")), "status")
	if code != 1 || strings.Count(errs, "cannot reach") != 1 {
		t.Errorf("got %d %q", code, errs)
	}
}

func TestTableIsAlignedAndCannotDisturbATerminal(t *testing.T) {
	var out bytes.Buffer
	err := cli.WriteTable(&out, []string{"NAME", "STATE", "ERROR"}, [][]string{
		{"eth0", "done", ""},
		{"wörld-with-a-long-name", "error", "first line\nsecond"},
		{"x", "", "\x1b[31mred\ttab"},
		{"y", "", "a\u202eb\xff"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `NAME                    STATE  ERROR
eth0                    done   -
wörld-with-a-long-name  error  first line …
x                       -       [31mred tab
y                       -      a b�
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestJSONCannotDisturbATerminal(t *testing.T) {
	text := "\x1b[2J \x7f \u009b31m \u202e \U000e0001 <ü> \U0001F41D \n"
	var out bytes.Buffer
	f := cli.FormatJSON
	if err := f.Print(&out, map[string]string{text: text}, nil, nil); err != nil {
		t.Fatal(err)
	}
	escaped := `"\u001b[2J \u007f \u009b31m \u202e \udb40\udc01 <ü> ` + "\U0001F41D" + ` \n"`
	if want := "{\n  " + escaped + ": " + escaped + "\n}\n"; out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back[text] != text {
		t.Errorf("it is read as %q, %v", back, err)
	}
}

func TestFormatOfOutput(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "N\n1\n"}, {[]string{"-o", "table"}, "N\n1\n"}, {[]string{"-o", "json"}, "{\n  \"n\": \"<1>\"\n}\n"},
	} {
		var out bytes.Buffer
		var f cli.Format
		c := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error {
			return f.Print(cmd.OutOrStdout(), map[string]string{"n": "<1>"}, []string{"N"}, [][]string{{"1"}})
		}}
		f.AddFlag(c.Flags())
		c.SetOut(&out)
		c.SetArgs(tt.args)
		if code := cli.Execute(t.Context(), c); code != 0 || out.String() != tt.want {
			t.Errorf("%v: got %d %q", tt.args, code, out.String())
		}
	}
	var f cli.Format
	if err := f.Set("xml"); err == nil || err.Error() != "expected table or json" {
		t.Errorf("got %v", err)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1500 * time.Millisecond: "1s", 192 * time.Second: "3m12s", 100 * time.Minute: "1h40m", 52 * time.Hour: "2d4h",
	} {
		if got := cli.Age(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestHelpNamesTheVariable(t *testing.T) {
	h := newHive(t, nil, command("do", func(*cobra.Command, *cli.Env) error { return nil }))
	if _, out, _ := execute(t, h, "--help"); !strings.Contains(out, "TEST_APP_SOCKET") {
		t.Errorf("got %s", out)
	}
}
