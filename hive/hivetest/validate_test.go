package hivetest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/hivetest"
)

// failures is a test that notes how it fails.
type failures struct {
	testing.TB
	text string
}

func (f *failures) Error(args ...any) { f.text += fmt.Sprintln(args...) }

func (f *failures) Fatal(args ...any) {
	f.Error(args...)
	panic(f)
}

// failureOf returns how a test fails.
func failureOf(t *testing.T, test func(testing.TB)) string {
	t.Helper()
	f := &failures{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(f) {
				panic(p)
			}
		}()
		test(f)
	}()
	return f.text
}

// validate returns how a test of the cells fails.
func validate(t *testing.T, cells ...cell.Cell) string {
	t.Helper()
	return failureOf(t, func(f testing.TB) { hivetest.Validate(f, cells...) })
}

func TestCellsAreValidatedWithoutAStart(t *testing.T) {
	type config struct {
		Socket string `flag:"dir"`
	}
	fits := cell.Module("m", "",
		cell.Config(config{}),
		cell.Provide(
			func(config) *int { t.Error("a constructor was called"); return nil },
			func() cli.CommandOut {
				return cli.NewCommand(func(*cli.Env) *cobra.Command { return &cobra.Command{Use: "do"} })
			},
		),
		cell.Invoke(func(*int) {}),
	)
	if failure := validate(t, fits); failure != "" {
		t.Errorf("got %s", failure)
	}
	for want, c := range map[string]cell.Cell{
		"missing type *string":                  cell.Invoke(func(*string) {}),
		"the flag --dir is already defined by":  cell.Config(config{}),
		`"do"`:                                  cell.Provide(newDo),
		"nothing asks for the group of int":     cell.Provide(newMember),
		"expected letters, digits, '-' and '_'": cell.Module("a b", ""),
	} {
		if failure := validate(t, fits, c); !strings.Contains(failure, want) {
			t.Errorf("got %q, want %q", failure, want)
		}
	}
}

func TestFaultOfACommandIsNamedOnceAndNoOther(t *testing.T) {
	failure := validate(t, cell.Provide(newDo, func(*string) cli.CommandOut {
		return cli.NewCommand(func(*cli.Env) *cobra.Command { return &cobra.Command{Use: "broken"} })
	}))
	if strings.Count(failure, "missing type *string") != 1 || strings.Contains(failure, "nothing asks for") {
		t.Errorf("got %s", failure)
	}
}

func newDo() cli.CommandOut {
	return cli.NewCommand(func(*cli.Env) *cobra.Command { return &cobra.Command{Use: "do"} })
}

type member struct {
	cell.Out
	Member int `group:"members"`
}

func newMember() member { return member{} }
