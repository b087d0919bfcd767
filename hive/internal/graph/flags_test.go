package graph_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive/cell"
)

func TestFlagsThatCannotBeGivenAreRefused(t *testing.T) {
	type (
		space struct {
			F string `flag:"a b"`
		}
		dash struct {
			F string `flag:"-a"`
		}
		equals struct {
			F string `flag:"a=b"`
		}
		dot struct {
			F string `flag:"a.b"` // no shell sets TEST_A.B
		}
		help struct {
			F bool `flag:"help"`
		}
		long struct {
			F string `flag:"a" shorthand:"ab"`
		}
		umlaut struct {
			F string `flag:"a" shorthand:"ä"`
		}
		usage struct {
			F string `flag:"host" shorthand:"h"`
		}
	)
	for want, c := range map[string]cell.Cell{
		`field F: bad flag name "a b"`:  cell.Config(space{}),
		`bad flag name "-a"`:            cell.Config(dash{}),
		`bad flag name "a=b"`:           cell.Config(equals{}),
		`bad flag name "a.b"`:           cell.Config(dot{}),
		"the flags --help and -h are":   cell.Config(help{}),
		`bad shorthand "ab"`:            cell.Config(long{}),
		`bad shorthand "ä"`:             cell.Config(umlaut{}),
		"reserved for the command line": cell.Config(usage{}),
	} {
		_, err := newGraph(t, cell.Module("m", "", c))
		wantError(t, err, `module "m" (graph/flags_test.go:`, "Config[graph_test.", want)
	}
}

func TestSettingsOfOneVariableOrShorthandAreRefused(t *testing.T) {
	type first struct {
		Dir string `flag:"config-dir" shorthand:"d"`
	}
	type second struct {
		Dir string `flag:"config_dir"`
	}
	type third struct {
		Debug bool `flag:"debug" shorthand:"d"`
	}
	_, err := newGraph(t, cell.Module("a", "", cell.Config(first{})), cell.Module("b", "", cell.Config(second{})), cell.Module("c", "", cell.Config(third{})))
	wantError(t, err,
		`module "b" (graph/flags_test.go:`, `the flag --config_dir has the same environment variable, …_CONFIG_DIR, as --config-dir of module "a" (graph/flags_test.go:`,
		`module "c" (graph/flags_test.go:`, `the shorthand -d is already the shorthand of --config-dir of module "a"`)
}

func TestFlagsAreHiddenDeprecatedAndShort(t *testing.T) {
	type config struct {
		Dir   string `flag:"dir" shorthand:"d" usage:"where it is"`
		Debug bool   `flag:"debug" shorthand:"D" usage:"for developers" hidden:"true"`
		Old   string `flag:"old" usage:"what it was" deprecated:"use --dir"`
	}
	var got config
	g, err := newGraph(t, cell.Config(config{}), cell.Invoke(func(c config) { got = c }))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetOutput(&out)
	if err := g.RegisterFlags(fs); err != nil {
		t.Fatal(err)
	}
	if usage := fs.FlagUsages(); !strings.Contains(usage, "-d, --dir string") || strings.Contains(usage, "debug") || strings.Contains(usage, "old") {
		t.Errorf("got usage %s", usage)
	}
	if err := fs.Parse([]string{"-d", "/etc", "-D", "--old=x"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "--old has been deprecated, use --dir") {
		t.Errorf("got warning %q", out.String())
	}
	if err := g.Configure(sources(nil)); err != nil {
		t.Fatal(err)
	}
	if err := g.Construct(); err != nil || got != (config{Dir: "/etc", Debug: true, Old: "x"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	wantError(t, g.RegisterFlag(fs, "dir"), "cannot add a flag --dir")
	other := pflag.NewFlagSet("other", pflag.ContinueOnError)
	other.BoolP("daemon", "d", false, "")
	wantError(t, g.RegisterFlags(other), "the flag -d already exists")
	if other.Lookup("debug") != nil {
		t.Error("flags were added all the same")
	}
}
