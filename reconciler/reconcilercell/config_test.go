package reconcilercell_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
)

// startLimited starts a hive with flags, and a module with a configuration of its own.
func startLimited(t *testing.T, own reconciler.Config, args ...string) running {
	t.Helper()
	var r running
	h := newHive(t, inspect.Cell(), reconcilercell.Cell(), things(
		cell.ProvidePrivate(func() reconciler.Config { return own }),
		cell.Invoke(r.keep),
	))
	r.begin(t, h, args...)
	return r
}

func TestDeletesAreHeldByTheLimitOfTheModuleThenOfTheFlagsThenByDefault(t *testing.T) {
	flags := []string{"--change-limit-rows=2", "--change-limit-percent=5", "--change-limit-window=1h"}
	for _, test := range []struct {
		own  reconciler.ChangeLimit
		args []string
		want string
	}{
		{want: "more than 10 rows and 30 % of the table within 1m0s"},
		{args: flags, want: "more than 2 rows and 5 % of the table within 1h0m0s"},
		{args: flags, own: reconciler.ChangeLimit{Rows: 3}, want: "more than 3 rows and 5 % of the table within 1h0m0s"},
		{
			args: flags, own: reconciler.ChangeLimit{Rows: 3, Percent: 40.5, Window: time.Minute},
			want: "more than 3 rows and 40.5 % of the table within 1m0s",
		},
	} {
		t.Run(test.want, func(t *testing.T) {
			r := startLimited(t, reconciler.Config{DeleteLimit: test.own}, test.args...)
			r.insert(t, manyIDs(20)...)
			r.allDone(t)
			r.deleteAll(t)
			r.eventually(t, "explain things n10", "until its delete is approved: "+test.want)
		})
	}
}

func TestDeletesAreNotHeldWhereTheModuleOrAFlagTurnsTheLimitOff(t *testing.T) {
	for name, r := range map[string]running{
		"by the module": startLimited(t, reconciler.Config{DeleteLimit: reconciler.ChangeLimit{Off: true}}, "--change-limit-rows=1"),
		"by a flag":     startLimited(t, reconciler.Config{}, "--change-limit-percent=100", "--change-limit-rows=1"),
	} {
		t.Run(name, func(t *testing.T) {
			r.insert(t, manyIDs(20)...)
			r.allDone(t)
			r.deleteAll(t)
			r.eventually(t, "plan things", "nothing is held")
			r.eventuallyFails(t, "explain things n10", "no such row")
		})
	}
}

func TestLimitThatIsNoneIsRefusedAtTheStart(t *testing.T) {
	for arg, want := range map[string]string{
		"--change-limit-rows=0":      "--change-limit-rows is 0: expected 1 or more",
		"--change-limit-rows=-1":     "--change-limit-rows is -1",
		"--change-limit-percent=0":   "--change-limit-percent is 0: expected 1 to 100",
		"--change-limit-percent=101": "--change-limit-percent is 101",
		"--change-limit-window=0s":   "--change-limit-window is 0s: expected a positive duration",
		"--change-limit-window=-1m":  "--change-limit-window is -1m0s",
	} {
		h := newHive(t, reconcilercell.Cell())
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		if err := h.RegisterFlags(flags); err != nil {
			t.Fatal(err)
		}
		if err := flags.Parse([]string{arg}); err != nil {
			t.Fatal(err)
		}
		if err := h.Start(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected %q", arg, err, want)
		}
	}
	for _, arg := range []string{"--change-limit-rows=1.5", "--change-limit-percent=a third", "--change-limit-window=60"} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		if err := newHive(t, reconcilercell.Cell()).RegisterFlags(flags); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(arg, "=")
		if err := flags.Parse([]string{arg}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, expected an error that names the flag", arg, err)
		}
	}
}

func manyIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = "n" + strconv.Itoa(10+i)
	}
	return ids
}
