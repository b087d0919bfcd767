package hive_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

func TestDeprecatedSettingsOfFileAndEnvironmentAreWarnedAboutOnce(t *testing.T) {
	type config struct {
		Dir   string `flag:"dir"`
		File  string `flag:"of-file" deprecated:"use --dir"`
		Env   string `flag:"of-env" deprecated:"use --dir instead" secret:"true"`
		Flag  string `flag:"of-flag" deprecated:"use --dir"`
		Unset string `flag:"unset" deprecated:"use --dir"`
	}
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("dir: x\nof-file: y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"TEST_APP_CONFIG": file, "TEST_APP_OF_ENV": "hunter2", "TEST_APP_OF_FLAG": "hidden by the flag"}
	var log strings.Builder
	h, err := hive.New(hive.Options{
		Name: "test-app", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		LookupEnv: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
	}, cell.Module("m", "", cell.Config(config{})))
	if err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetOutput(t.Output())
	if err := h.RegisterFlags(fs); err != nil {
		t.Fatal(err)
	}
	if err := fs.Parse([]string{"--of-flag=z"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Settings(); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`setting=of-file origin=` + file + `:2 instead="use --dir"`,
		`setting=of-env origin="environment variable TEST_APP_OF_ENV" instead="use --dir instead"`,
	} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("not once %s in\n%s", want, log.String())
		}
	}
	if n := strings.Count(log.String(), "deprecated"); n != 2 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}
