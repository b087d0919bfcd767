package graph_test

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/graph"
)

type base struct {
	Workers int `flag:"workers" usage:"how many"`
}

type settings struct {
	base                   // not exported, but its fields are promoted
	Dir      string        `flag:"config-dir" usage:"directory of documents"`
	Interval time.Duration `flag:"interval"`
	On       bool          `flag:"on"`
	Ratio    float64       `flag:"ratio"`
	Small    uint8         `flag:"small"`
	Names    []string      `flag:"names"`
	Net      netip.Prefix  `flag:"net"`
	Internal string
}

func defaults() settings {
	return settings{base: base{Workers: 3}, Dir: "/etc", Names: []string{"default"}, Internal: "kept"}
}

// sources are an environment, and what entries are in the file that FILE names.
func sources(vars map[string]string, entries ...graph.FileEntry) graph.Sources {
	return graph.Sources{
		EnvPrefix: "TEST",
		LookupEnv: func(name string) (string, bool) {
			v, ok := vars[name]
			return v, ok
		},
		FileFlag: "file",
		ReadFile: func(string) ([]graph.FileEntry, error) { return entries, nil },
	}
}

// configure runs a configuration through flags and environment.
func configure[C any](t *testing.T, c C, args []string, vars map[string]string, file ...graph.FileEntry) (C, error) {
	t.Helper()
	var got C
	g, err := newGraph(t, cell.Module("m", "", cell.Config(c)), cell.Invoke(func(c C) { got = c }))
	if err != nil {
		return got, err
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	if err := g.RegisterFlags(fs); err != nil {
		return got, err
	}
	if err := fs.Parse(args); err != nil {
		return got, err
	}
	if err := g.Configure(sources(vars, file...)); err != nil {
		return got, err
	}
	return got, g.Construct()
}

func TestListOfANamedStringTypeIsSet(t *testing.T) {
	type name string
	type config struct {
		Names []name `flag:"names"`
	}
	got, err := configure(t, config{Names: []name{"default"}}, []string{"--names=a,b", "--names=c"}, nil)
	if diff := cmp.Diff([]name{"a", "b", "c"}, got.Names); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestFlagWithoutANameIsRefused(t *testing.T) {
	type config struct {
		Dir string `flag:""`
	}
	_, err := configure(t, config{}, nil, nil)
	wantError(t, err, "field Dir: its flag has no name")
}

func TestFlagWinsOverEnvironmentWinsOverDefault(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		vars map[string]string
		want string
	}{
		{"default", nil, nil, "/etc"},
		{"environment", nil, map[string]string{"TEST_CONFIG_DIR": "/env"}, "/env"},
		{"empty environment", nil, map[string]string{"TEST_CONFIG_DIR": ""}, ""},
		{"flag", []string{"--config-dir=/flag"}, map[string]string{"TEST_CONFIG_DIR": "/env"}, "/flag"},
		{"flag equal to the default", []string{"--config-dir=/etc"}, map[string]string{"TEST_CONFIG_DIR": "/env"}, "/etc"},
		{"flag over bad environment", []string{"--workers=1"}, map[string]string{"TEST_WORKERS": "many"}, "/etc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := configure(t, defaults(), tt.args, tt.vars)
			if err != nil || got.Dir != tt.want {
				t.Errorf("got %q, %v, want %q", got.Dir, err, tt.want)
			}
		})
	}
}

func TestAllKindsOfValues(t *testing.T) {
	want := settings{
		base: base{Workers: -2}, Dir: "d", Interval: 90 * time.Second, On: true, Ratio: 0.5, Small: 255,
		Names: []string{"a", "b", "c"}, Net: netip.MustParsePrefix("10.0.0.0/8"), Internal: "kept",
	}
	got, err := configure(t, defaults(), []string{
		"--workers=-2", "--config-dir", "d", "--interval=1m30s", "--on", "--ratio=0.5", "--small=0xff", "--names=a,b", "--names=c", "--net=10.0.0.0/8",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, want, got)
	got, err = configure(t, defaults(), nil, map[string]string{
		"TEST_WORKERS": "-2", "TEST_CONFIG_DIR": "d", "TEST_INTERVAL": "1m30s", "TEST_ON": "true", "TEST_RATIO": "0.5",
		"TEST_SMALL": "255", "TEST_NAMES": "a, b,c", "TEST_NET": "10.0.0.0/8",
	})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, want, got)
}

func compare(t *testing.T, want, got settings) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestBadValueSaysWhereItIsFromAndWhatIsExpected(t *testing.T) {
	for name, tt := range map[string]struct{ flag, text, want string }{
		"duration": {"interval", "5", "expected a duration such as"},
		"bool":     {"on", "perhaps", "expected true or false"},
		"int":      {"workers", "x", "expected a whole number from -9223372036854775808 to 9223372036854775807"},
		"overflow": {"small", "256", "expected a whole number from 0 to 255"},
		"float":    {"ratio", "half", "expected a number"},
		"text":     {"net", "10.0.0.0/99", "prefix length out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configure(t, defaults(), []string{"--" + tt.flag + "=" + tt.text}, nil)
			wantError(t, err, "--"+tt.flag, tt.text, tt.want)
			variable := graph.EnvName("TEST", tt.flag)
			_, err = configure(t, defaults(), nil, map[string]string{variable: tt.text})
			wantError(t, err, "environment variable "+variable+`="`+tt.text+`"`, tt.want)
			var config *cell.ConfigError
			if !errors.As(err, &config) || config.Module != "m" {
				t.Errorf("got %#v", err)
			}
		})
	}
}

func TestAllBadVariablesAreNamed(t *testing.T) {
	_, err := configure(t, defaults(), nil, map[string]string{"TEST_ON": "perhaps", "TEST_INTERVAL": "soon"})
	wantError(t, err, "TEST_ON", "TEST_INTERVAL")
}

func TestFlagOfTwoCellsIsRefused(t *testing.T) {
	type one struct {
		Dir string `flag:"dir"`
	}
	type two struct {
		Dir string `flag:"dir"`
	}
	_, err := newGraph(t, cell.Module("a", "", cell.Config(one{})), cell.Module("b", "", cell.Config(two{})))
	wantError(t, err, `module "b"`, "the flag --dir is already defined by module \"a\"", "Config[graph_test.one] (graph/config_test.go:", "Config[graph_test.two] (graph/config_test.go:")
}

func TestFlagThatTheFlagSetHasIsRefused(t *testing.T) {
	g, err := newGraph(t, cell.Config(defaults()))
	if err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.String("interval", "", "")
	wantError(t, g.RegisterFlags(fs), "the flag --interval already exists")
	if fs.Lookup("on") != nil {
		t.Error("flags were added all the same")
	}
}

func TestFieldThatCannotBeSetIsRefused(t *testing.T) {
	type bad struct {
		Map map[int]string `flag:"map"`
	}
	type hidden struct {
		dir string `flag:"dir"`
	}
	_, err := newGraph(t, cell.Config(bad{}))
	wantError(t, err, "field Map", "cannot set a map[int]string from a flag")
	_, err = newGraph(t, cell.Config(hidden{dir: "x"}))
	wantError(t, err, "field dir", "must be exported")
}

type validated struct {
	Port int `flag:"port"`
}

func (v *validated) Validate() error {
	if v.Port > 65535 {
		return errors.New("--port: expected at most 65535")
	}
	return nil
}

func TestValidateIsCalledBeforeAnythingIsConstructed(t *testing.T) {
	g, err := newGraph(t, cell.Module("m", "", cell.Config(validated{Port: 80})),
		cell.Invoke(func(validated) { t.Error("constructed with a bad configuration") }))
	if err != nil {
		t.Fatal(err)
	}
	err = g.Configure(sources(map[string]string{"TEST_PORT": "70000"}))
	wantError(t, err, `configuration of module "m": --port: expected at most 65535`)
}

func TestConfigurationCannotBeUsedBeforeItIsRead(t *testing.T) {
	g, err := newGraph(t, cell.Config(defaults()))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Invoke(func(settings) {}); !errors.Is(err, cell.ErrNotConfigured) {
		t.Errorf("got %v", err)
	}
	if err := g.Configure(sources(nil)); err != nil {
		t.Fatal(err)
	}
	if err := g.Invoke(func(settings) {}); err != nil {
		t.Errorf("after Configure: %v", err)
	}
}

func TestFlagsShowDefaultsAndUsage(t *testing.T) {
	g, err := newGraph(t, cell.Config(defaults()))
	if err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	if err := g.RegisterFlags(fs); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string][2]string{
		"config-dir": {"/etc", "directory of documents"}, "workers": {"3", "how many"}, "names": {"default", ""},
	} {
		f := fs.Lookup(flag)
		if f == nil || f.DefValue != want[0] || f.Usage != want[1] {
			t.Errorf("--%s: got %+v, want %q", flag, f, want)
		}
	}
}

type rich struct {
	Nets    []netip.Prefix           `flag:"nets"`
	Ports   []uint16                 `flag:"ports"`
	Labels  map[string]string        `flag:"labels"`
	Waits   map[string]time.Duration `flag:"waits"`
	Token   string                   `flag:"token" secret:"true"`
	Backoff time.Duration            `flag:"backoff" secret:"true"`
	File    string                   `flag:"file"`
}

func TestListsAndMapsAreSetFromEachSource(t *testing.T) {
	want := rich{
		Nets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}, Ports: []uint16{1, 2},
		Labels: map[string]string{"a": "1", "b": "x=y"}, Waits: map[string]time.Duration{"s": time.Second}, File: "f",
	}
	for name, got := range map[string]func() (rich, error){
		"flags": func() (rich, error) {
			return configure(t, rich{Ports: []uint16{9}, Labels: map[string]string{"old": "z"}}, []string{
				"--nets=10.0.0.0/8", "--nets=fd00::/8", "--ports=1,2", "--labels=a=0,b=x=y", "--labels=a=1", "--waits=s=1s", "--file=f",
			}, nil)
		},
		"environment": func() (rich, error) {
			return configure(t, rich{}, nil, map[string]string{
				"TEST_NETS": "10.0.0.0/8, fd00::/8", "TEST_PORTS": "1,2", "TEST_LABELS": "a=1,b=x=y", "TEST_WAITS": "s=1s", "TEST_FILE": "f",
			})
		},
		"file": func() (rich, error) {
			return configure(t, rich{File: "f"}, nil, nil,
				graph.FileEntry{Key: "nets", Value: []string{"10.0.0.0/8", "fd00::/8"}}, graph.FileEntry{Key: "ports", Value: "1,2"},
				graph.FileEntry{Key: "labels", Value: map[string]string{"a": "1", "b": "x=y"}},
				graph.FileEntry{Key: "waits", Value: map[string]string{"s": "1s"}})
		},
	} {
		got, err := got()
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func TestEnvironmentWinsOverFileWinsOverDefault(t *testing.T) {
	file := []graph.FileEntry{{Key: "config-dir", Position: "x.yaml:1", Value: "/file"}, {Key: "workers", Position: "x.yaml:2", Value: "7"}}
	type config struct {
		settings
		File string `flag:"file"`
	}
	for _, tt := range []struct {
		args []string
		vars map[string]string
		want string
	}{
		{nil, nil, "/file"},
		{nil, map[string]string{"TEST_CONFIG_DIR": "/env"}, "/env"},
		{[]string{"--config-dir=/flag"}, map[string]string{"TEST_CONFIG_DIR": "/env"}, "/flag"},
	} {
		got, err := configure(t, config{settings: defaults()}, append(tt.args, "--file=x.yaml"), tt.vars, file...)
		if err != nil || got.Dir != tt.want || got.Workers != 7 {
			t.Errorf("got %q and %d, %v, want %q", got.Dir, got.Workers, err, tt.want)
		}
	}
	if got, err := configure(t, config{settings: defaults()}, nil, nil, file...); err != nil || got.Dir != "/etc" {
		t.Errorf("without a file: got %q, %v", got.Dir, err)
	}
}

func TestFaultsInAFileAreAllNamedWithTheirPlaces(t *testing.T) {
	_, err := configure(t, rich{File: "x.yaml"}, nil, nil,
		graph.FileEntry{Key: "port", Position: "x.yaml:1", Value: "1"},
		graph.FileEntry{Key: "ports", Position: "x.yaml:2", Value: "1,many"},
		graph.FileEntry{Key: "nets", Position: "x.yaml:3", Value: map[string]string{"a": "b"}},
		graph.FileEntry{Key: "waits", Position: "x.yaml:4", Value: []string{"a"}},
		graph.FileEntry{Key: "nets", Position: "x.yaml:5", Value: "10.0.0.0/8"},
		graph.FileEntry{Key: "elsewhere", Position: "x.yaml:6", Value: ""},
		graph.FileEntry{Key: "file", Position: "x.yaml:7", Value: "y.yaml"},
	)
	wantError(t, err,
		`x.yaml:1: unknown key "port": there is ports`, `x.yaml:2: ports="1,many": "many": expected a whole number`,
		`x.yaml:4: waits="…": expected a map to durations`, `x.yaml:5: the key "nets" is already at x.yaml:3`,
		`x.yaml:6: unknown key "elsewhere": there is backoff, labels, nets, ports, token, waits`, `x.yaml:7: unknown key "file"`)
	var unknown *cell.UnknownKeyError
	if !errors.As(err, &unknown) || unknown.Key != "port" {
		t.Errorf("got %#v", unknown)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	for name, got := range map[string]func() (rich, error){
		"flag":        func() (rich, error) { return configure(t, rich{}, []string{"--backoff=hunter2"}, nil) },
		"environment": func() (rich, error) { return configure(t, rich{}, nil, map[string]string{"TEST_BACKOFF": "hunter2"}) },
		"file": func() (rich, error) {
			return configure(t, rich{File: "f"}, nil, nil, graph.FileEntry{Key: "backoff", Position: "f:1", Value: "hunter2"})
		},
	} {
		_, err := got()
		wantError(t, err, cell.Redacted, "expected a duration (it is a secret")
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	g, err := newGraph(t, cell.Config(rich{Token: "hunter2"}))
	if err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	if err := g.RegisterFlags(fs); err != nil || strings.Contains(fs.FlagUsages()+fmt.Sprint(g.Settings()), "hunter2") {
		t.Errorf("got %v %s %v", err, fs.FlagUsages(), g.Settings())
	}
}

func TestEffectiveSettingsSayWhereEachValueIsFrom(t *testing.T) {
	type config struct {
		Dir   string `flag:"dir" usage:"where"`
		Env   int    `flag:"env"`
		Token string `flag:"token" secret:"true"`
		File  string `flag:"file"`
		Rest  bool   `flag:"rest"`
	}
	g, err := newGraph(t, cell.Module("m", "", cell.Config(config{Dir: "/etc"})))
	if err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	if err := errors.Join(g.RegisterFlags(fs), fs.Parse([]string{"--file=x.yaml"})); err != nil {
		t.Fatal(err)
	}
	err = g.Configure(sources(map[string]string{"TEST_ENV": "3"},
		graph.FileEntry{Key: "dir", Position: "x.yaml:4", Value: "/srv"}, graph.FileEntry{Key: "token", Position: "x.yaml:5", Value: "hunter2"}))
	want := []cell.Setting{
		{Name: "dir", Module: "m", Value: "/srv", Default: "/etc", Origin: "x.yaml:4", Usage: "where"},
		{Name: "env", Module: "m", Value: "3", Default: "0", Origin: "environment variable TEST_ENV"},
		{Name: "file", Module: "m", Value: "x.yaml", Origin: "flag"},
		{Name: "rest", Module: "m", Value: "false", Default: "false", Origin: "default"},
		{Name: "token", Module: "m", Value: cell.Redacted, Origin: "x.yaml:5", Secret: true},
	}
	if diff := cmp.Diff(want, g.Settings()); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestMistypedVariableOfTheEnvironmentIsRefused(t *testing.T) {
	g, err := newGraph(t, cell.Config(defaults()))
	if err != nil {
		t.Fatal(err)
	}
	from := sources(map[string]string{"TEST_CONFIG_DIR": "/etc"})
	from.Environ = func() []string {
		return []string{"TEST_CONFIG_DIR=/etc", "TEST_WORKER=secret", "TEST_PORT=tcp://192.0.2.1:80", "TEST_SERVICE_HOST=x", "TESTWORKER=1", "WORKER=1"}
	}
	err = g.Configure(from)
	wantError(t, err, `environment: unknown key "TEST_WORKER": there is TEST_WORKERS`)
	var unknown *cell.UnknownKeyError
	if !errors.As(err, &unknown) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestSettingSaysWhatIsWrongWithIt(t *testing.T) {
	type config struct {
		File  string `flag:"file"`
		Name  string `flag:"name"`
		Other string `flag:"other"`
	}
	g, err := newGraph(t, cell.Config(config{File: "f"}))
	if err != nil {
		t.Fatal(err)
	}
	from := sources(nil, graph.FileEntry{Key: "name", Position: "f:1", Value: []string{"x"}}, graph.FileEntry{Key: "unknown", Position: "f:2"},
		graph.FileEntry{Key: "unknown", Position: "f:3"}, graph.FileEntry{Key: "name", Position: "f:4", Value: []string{"y"}})
	err = g.Configure(from)
	wantError(t, err, `f:3: the key "unknown" is already at f:2`)
	for _, s := range g.Settings() {
		if s.Name != "name" {
			if s.Err != nil {
				t.Errorf("%s: got %v", s.Name, s.Err)
			}
			continue
		}
		wantError(t, s.Err, `f:4: the key "name" is already at f:1`)
		wantError(t, s.Err, `f:4: name="…": expected one string`)
	}
}
