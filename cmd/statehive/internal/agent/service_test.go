package agent

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/statehive/statehive/hive/inspect"
)

const (
	unitFile = "../../../../dist/statehive.service"
	dropIns  = "../../../../dist/drop-ins/"
)

// directives are those that the unit and its drop-ins may have. Systemd ignores what it does not know.
var directives = strings.Fields(`
	[Unit] Description Documentation After Before Wants StartLimitIntervalSec
	[Install] WantedBy
	[Service] Type ExecStart ExecReload Restart RestartSec TimeoutStopSec
	StateDirectory StateDirectoryMode RuntimeDirectory RuntimeDirectoryMode ConfigurationDirectory ConfigurationDirectoryMode UMask
	MemoryMax TasksMax OOMScoreAdjust LimitNOFILE LimitCORE
	CapabilityBoundingSet AmbientCapabilities NoNewPrivileges RestrictSUIDSGID
	ProtectSystem ReadWritePaths ReadOnlyPaths ProtectHome PrivateTmp PrivateMounts ProtectControlGroups ProtectKernelModules
	ProtectKernelLogs ProtectProc ProtectClock PrivateDevices BindPaths DevicePolicy DeviceAllow NoExecPaths ExecPaths RemoveIPC
	KeyringMode RestrictAddressFamilies IPAddressDeny IPAddressAllow SystemCallArchitectures SystemCallFilter
	Environment SystemCallErrorNumber RestrictNamespaces RestrictRealtime LockPersonality MemoryDenyWriteExecute`)

// unitSettings returns what a unit sets, by section and directive.
func unitSettings(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, section := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		name, value, isSetting := strings.Cut(line, "=")
		at := slices.Index(directives, name)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = line
		case !isSetting || at < 0 || sectionOf(at) != section:
			t.Errorf("%s: unknown line %q in section %s", path, line, section)
		default:
			all[name] = append(all[name], value)
		}
	}
	return all
}

// sectionOf returns the section of a directive.
func sectionOf(at int) string {
	for ; directives[at][0] != '['; at-- {
	}
	return directives[at]
}

func TestTheUnitFitsTheAgent(t *testing.T) {
	unit := unitSettings(t, unitFile)
	command := strings.Fields(unit["ExecStart"][0])
	if filepath.Base(command[0]) != name {
		t.Errorf("the unit starts %s", command[0])
	}
	root, err := newRoot(slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	run, rest, err := root.Find(command[1:])
	if err != nil || run.Name() != "agent" {
		t.Fatalf("the unit runs the command %v: %v", run, err)
	}
	if err := run.ParseFlags(rest); err != nil {
		t.Errorf("flags of the unit: %v", err)
	}
	documents, err := run.Flags().GetString("config-dir")
	if err != nil || !slices.ContainsFunc(strings.Fields(unit["ConfigurationDirectory"][0]), func(dir string) bool { return "/etc/"+dir == documents }) {
		t.Errorf("documents are read from %q, which ConfigurationDirectory= does not make: %v", documents, err)
	}
	// The last filter counts. Without these the agent could not confine itself, see surroundings.confine.
	filters := unit["SystemCallFilter"]
	for _, call := range []string{"@chown", "capset", "seccomp"} {
		if last := filters[len(filters)-1]; !slices.Contains(strings.Fields(last), call) {
			t.Errorf("SystemCallFilter=%s does not allow %s", last, call)
		}
	}
	if os.Geteuid() != 0 {
		return // the defaults are those of another user
	}
	if state, err := defaultStateDir(); err != nil || "/var/lib/"+unit["StateDirectory"][0] != state {
		t.Errorf("StateDirectory=%v, but the default is %s, %v", unit["StateDirectory"], state, err)
	}
	for directive, want := range map[string]string{"RuntimeDirectoryMode": "0700", "ConfigurationDirectoryMode": "0711"} {
		if mode := unit[directive]; !slices.Equal(mode, []string{want}) {
			t.Errorf("%s=%v, want %s: other users may list the directory, or reach the socket's name", directive, mode, want)
		}
	}
	if dir := filepath.Dir(inspect.DefaultSocket(name)); "/run/"+unit["RuntimeDirectory"][0] != dir {
		t.Errorf("RuntimeDirectory=%v, but the socket is in %s", unit["RuntimeDirectory"], dir)
	}
}

func TestDropInsOfTheUnit(t *testing.T) {
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(dropIns + "*.conf")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		unitSettings(t, path)
	}
	for _, named := range regexp.MustCompile(`[a-z-]+\.conf`).FindAllString(string(text), -1) {
		if !slices.Contains(paths, dropIns+named) {
			t.Errorf("the unit names %s, which is not there", named)
		}
	}
}

// The score that systemd gives goes from 0, most confined, to 10.
func TestSystemdFindsTheUnitWellConfined(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("this machine has no systemd-analyze")
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=yes", "--no-pager", unitFile).CombinedOutput()
	score := regexp.MustCompile(`Overall exposure level .*: ([0-9.]+) `).FindSubmatch(out)
	if score == nil {
		t.Fatalf("no score: %v\n%s", err, out)
	}
	if exposure, err := strconv.ParseFloat(string(score[1]), 64); err != nil || exposure > 2.0 {
		t.Errorf("exposure %s, expected 2.0 at most: %v\n%s", score[1], err, out)
	}
	if strings.Contains(string(out), "Unknown") {
		t.Errorf("%s", out)
	}
}
