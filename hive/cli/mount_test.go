package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
)

func ask(cmd *cobra.Command, env *cli.Env) error {
	return env.Client().Get(cmd.Context(), "/v1/agent", nil, new(any))
}

func TestFileOfSettingsThatCannotBeUsedDoesNotLeadToAnotherAgent(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for text, want := range map[string]string{
		"":                           missing + ": no such file",
		"socket: [/file\n":           "settings.yaml: ",
		"- socket\n":                 "settings.yaml:1: expected a map",
		"socket: [/file]\n":          `settings.yaml:1: socket="…": expected one string`,
		"a: 1\nsocket: {a: [1]}\n":   `settings.yaml:2: socket="…": expected one string`,
		"socket: /a\nsocket: /b\n":   `settings.yaml:2: the key "socket" is already at`,
		"socket:\nother: [1, [2]]\n": `settings.yaml:1: socket="…": expected one string`,
	} {
		path := missing
		if text != "" {
			path = filepath.Join(t.TempDir(), "settings.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, run := range []func(*cobra.Command, *cli.Env) error{printSocket, ask} {
			wantRefused(t, want, nil, run, "do", "--config="+path)
			wantRefused(t, want, map[string]string{"TEST_APP_CONFIG": path}, run, "do")
		}
		h := newHive(t, nil, inspect.Cell(), command("where", printSocket))
		if code, out, errs := execute(t, h, "where", "--config="+path, "--socket=/flag"); code != 0 || out != "/flag" {
			t.Errorf("%q with a socket: got %d %q %q", text, code, out, errs)
		}
	}
}

func wantRefused(t *testing.T, want string, vars map[string]string, run func(*cobra.Command, *cli.Env) error, args ...string) {
	t.Helper()
	code, out, errs := execute(t, newHive(t, vars, inspect.Cell(), command("do", run)), args...)
	if code != 1 || out != "" || !strings.Contains(errs, want) || !strings.HasPrefix(errs, "test-app: cannot tell, without --socket, which agent") {
		t.Errorf("%v %v: got %d %q %q, want %q", vars, args, code, out, errs, want)
	}
}

func TestFileOfSettingsMayBeReadOnlyOnce(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(w, "socket: /pipe\n")
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	h := newHive(t, nil, inspect.Cell(), command("where", func(cmd *cobra.Command, env *cli.Env) error {
		return errors.Join(printSocket(cmd, env), printSocket(cmd, env))
	}))
	if code, out, errs := execute(t, h, "where", fmt.Sprintf("--config=/dev/fd/%d", r.Fd())); code != 0 || out != "/pipe/pipe" {
		t.Errorf("got %d %q %q", code, out, errs)
	}
}

func TestStatusSaysOnceThatTheSocketCannotBeTold(t *testing.T) {
	asking := func(name string) cell.Cell {
		return cell.Provide(func() cli.StatusSectionOut {
			return cli.NewStatusSection(cli.StatusSection{Name: name, Show: func(ctx context.Context, c *inspect.Client, _ io.Writer) (bool, error) {
				return true, c.Get(ctx, "/v1/agent", nil, new(any))
			}})
		})
	}
	code, _, errs := execute(t, newHive(t, map[string]string{"TEST_APP_CONFIG": "/nowhere.yaml"}, asking("a"), asking("b")), "status")
	if code != 1 || strings.Count(errs, "TEST_APP_CONFIG") != 1 {
		t.Errorf("got %d %q", code, errs)
	}
}

func TestMountingStartsNothingAndRefusesNamesThatAreTaken(t *testing.T) {
	for want, take := range map[string]func(root *cobra.Command){
		`two commands named "one"`: func(root *cobra.Command) {
			root.AddCommand(&cobra.Command{Use: "one", Run: func(*cobra.Command, []string) {}})
		},
		`"root" has a flag --socket already`: func(root *cobra.Command) { root.PersistentFlags().String("socket", "", "") },
		`"root" has a flag --config already`: func(root *cobra.Command) { root.Flags().String("config", "", "") },
	} {
		noop := func(*cobra.Command, *cli.Env) error { return nil }
		h := newHive(t, nil, command("one", noop), cell.Invoke(func() { t.Error("constructed") }))
		root := &cobra.Command{Use: "root"}
		take(root)
		if err := cli.Mount(root, h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func below(parent, use, out string) cell.Cell {
	return cell.Provide(func() cli.CommandOut {
		return cli.NewCommandBelow(parent, func(*cli.Env) *cobra.Command {
			return &cobra.Command{Use: use, RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := io.WriteString(cmd.OutOrStdout(), out)
				return err
			}}
		})
	})
}

func TestCommandsBelowOneOfAnotherModule(t *testing.T) {
	prints := func(text string) func(*cobra.Command, *cli.Env) error {
		return func(cmd *cobra.Command, _ *cli.Env) error {
			_, err := io.WriteString(cmd.OutOrStdout(), text)
			return err
		}
	}
	for line, want := range map[string]string{"approve": "parent", "approve documents": "part", "open door": "part of none"} {
		h := newHive(t, nil, below("approve", "documents", "part"), command("approve", prints("parent")), below("open", "door", "part of none"))
		if code, out, errs := execute(t, h, strings.Fields(line)...); code != 0 || out != want {
			t.Errorf("%s: got %d %q %q, want %q", line, code, out, errs, want)
		}
	}
	h := newHive(t, nil, below("open", "door", ""), below("open", "door", ""))
	if err := cli.Mount(&cobra.Command{Use: "root"}, h); err == nil || !strings.Contains(err.Error(), `command "open" has two commands named "door"`) {
		t.Errorf("two of one name: %v", err)
	}
}

func TestCommandWhoseOwnFlagWouldHideWhereTheAgentIsIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		flag func(c, below *cobra.Command)
		want string
	}{
		"do":            {func(c, _ *cobra.Command) { c.Flags().String("config", "", "") }, `command "do" has a flag --config of its own`},
		"do for others": {func(c, _ *cobra.Command) { c.PersistentFlags().String("socket", "", "") }, `command "do" has a flag --socket of its own`},
		"do below":      {func(_, below *cobra.Command) { below.Flags().String("config", "", "") }, `command "do below" has a flag --config of its own`},
		"do nothing":    {func(c, _ *cobra.Command) { c.Flags().String("configs", "", "") }, ""},
		"agent":         {func(c, _ *cobra.Command) { c.Flags().String("config", "", "") }, ""},
	} {
		h := newHive(t, nil, cell.Provide(func() cli.CommandOut {
			return cli.NewCommand(func(*cli.Env) *cobra.Command {
				c, below := &cobra.Command{Use: strings.Fields(name)[0]}, &cobra.Command{Use: "below"}
				c.AddCommand(below)
				tt.flag(c, below)
				return c
			})
		}))
		err := cli.Mount(&cobra.Command{Use: "root"}, h)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}
