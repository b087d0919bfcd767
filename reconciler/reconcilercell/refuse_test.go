package reconcilercell_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/statehive/statehive/reconciler/reconcilercell"
)

func TestFlagsThatMakeNoSenseAreRefusedAtTheStart(t *testing.T) {
	for arg, want := range map[string]string{
		"--full-interval=1ms":   "--full-interval is 1ms: expected at least 1s, or a negative duration",
		"--full-interval=999ms": "--full-interval is 999ms",
		"--ready-tries=-1":      "--ready-tries is -1: expected 1 or more",
	} {
		t.Run(arg, func(t *testing.T) {
			h := newHive(t, reconcilercell.Cell())
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			if err := h.RegisterFlags(flags); err != nil {
				t.Fatal(err)
			}
			if err := flags.Parse([]string{arg}); err != nil {
				t.Fatal(err)
			}
			err := h.Start(t.Context())
			if err == nil {
				if err := h.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, expected %q", err, want)
			}
		})
	}
}

func TestLimitsThatMakeNoSenseAreRefusedAndChangeNothing(t *testing.T) {
	r := start(t, "")
	for _, test := range []struct{ arg, want string }{
		{"--round=0", `parameter "round" is "0", expected 1 or more`},
		{"--rate=5 --burst=0", `parameter "burst" is "0", expected 1 or more`},
		{"--rate=NaN", `parameter "rate" is "NaN", expected a number that is not negative`},
		{"--rate=Inf", `parameter "rate" is "+Inf", expected a number that is not negative`},
		{"--rate=-Inf", `parameter "rate" is "-Inf", expected a number that is not negative`},
	} {
		t.Run(test.arg, func(t *testing.T) {
			const before = "things: rounds of 1000, 7 operations per second in bursts of 2\n"
			r.says(t, "limits things --rate 7 --burst 2", before)
			r.fails(t, "limits things "+test.arg, test.want)
			r.says(t, "limits things", before)
		})
	}
}
