package cli_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
)

// show is a command with a format.
func show(use string) cell.Cell {
	return cell.Provide(func() cli.CommandOut {
		return cli.NewCommand(func(*cli.Env) *cobra.Command {
			var format cli.Format
			c := &cobra.Command{Use: use, Short: "Show a table", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
				return printTo(cmd, fmt.Sprintf("table %v as %s", args, format))
			}}
			format.AddFlag(c.Flags())
			return c
		})
	})
}

// showFile is what a command does with --file.
func showFile(use string) cell.Cell {
	return cell.Provide(func() cli.CommandOut {
		return cli.NewCommandWithFlag("file", func(*cli.Env) *cobra.Command {
			var format cli.Format
			var file string
			var deep bool
			c := &cobra.Command{Use: use, Short: "Show a file", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
				return errors.Join(printTo(cmd, fmt.Sprintf("file %s as %s, deep %v", file, format, deep)), &cli.ExitError{Code: 2})
			}}
			c.Flags().StringVarP(&file, "file", "f", "", "")
			c.Flags().BoolVar(&deep, "deep", false, "")
			format.AddFlag(c.Flags())
			return c
		})
	})
}

func TestAFlagHasACommandDoWhatAnotherModuleContributes(t *testing.T) {
	for line, want := range map[string]string{
		"show x":                       "0 table [x] as table",
		"show x -o json":               "0 table [x] as json",
		"show -f y":                    "2 file y as table, deep false",
		"show --file=y -o json --deep": "2 file y as json, deep true",
		"show":                         "1 test-app: accepts 1 arg(s), received 0",
		"show x --deep":                "1 test-app: --deep needs --file",
		"show -f y z":                  `1 test-app: unknown command "z" for "test-app show"`,
	} {
		for _, cells := range [][]cell.Cell{{show("show TABLE"), showFile("show -f FILE")}, {showFile("show -f FILE"), show("show TABLE")}} {
			code, out, errs := execute(t, newHive(t, nil, cells...), strings.Fields(line)...)
			if got := fmt.Sprintf("%d %s%s", code, out, strings.TrimSpace(errs)); got != want {
				t.Errorf("%s: got %q, want %q", line, got, want)
			}
		}
	}
	_, help, _ := execute(t, newHive(t, nil, show("show TABLE"), showFile("show -f FILE")), "show", "--help")
	if !strings.Contains(help, "show TABLE | -f FILE [flags]") {
		t.Errorf("help: %s", help)
	}
}

func TestACommandOfAFlagStandsAloneOrFails(t *testing.T) {
	if code, out, errs := execute(t, newHive(t, nil, showFile("show -f FILE")), "show", "-f", "y"); code != 2 || out != "file y as table, deep false" {
		t.Errorf("without the other command: %d %q %q", code, out, errs)
	}
	noFlag := cell.Provide(func() cli.CommandOut {
		return cli.NewCommandWithFlag("file", func(*cli.Env) *cobra.Command { return &cobra.Command{Use: "show"} })
	})
	for want, cells := range map[string][]cell.Cell{
		`command "show" has no flag --file, with which it is to be run`: {noFlag},
		`command "show" has a flag --file already`:                      {show("show TABLE"), showFile("show -f FILE"), showFile("show -f FILE")},
	} {
		err := cli.Mount(&cobra.Command{Use: "root"}, newHive(t, nil, cells...))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
