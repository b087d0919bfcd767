package dbcell_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/statedb"
)

func TestTablesCommandListsTables(t *testing.T) {
	a := startAgent(t)
	a.insert(fourPorts()...)
	a.update(func(txn *statedb.WriteTxn) error {
		if _, err := a.ports.RegisterSource(txn, "files"); err != nil {
			return err
		}
		source, err := a.notes.RegisterSource(txn, "net")
		if err != nil {
			return err
		}
		return source.Incomplete(txn, "server is away")
	})
	out, errs, code := a.run("tables")
	var lines []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "health") && !strings.HasPrefix(line, "jobs") { // have as many rows as they like
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	want := []string{
		"NAME ROWS REVISION INDEXES SOURCES",
		"notes 0 0 name,only net (incomplete: server is away)",
		"ports 4 4 key,peer,status files (not initialized)",
	}
	if diff := cmp.Diff(want, lines); diff != "" || errs != "" || code != 0 {
		t.Errorf("code %d, stderr %q: %s", code, errs, diff)
	}
	if out, _, _ := a.run("tables", "-o", "json"); !strings.HasPrefix(out, "[\n") || !strings.Contains(out, `"incomplete": "server is away"`) {
		t.Errorf("as JSON: %s", out)
	}
}

const allPorts = `DEVICE  NUMBER  PEER-NAME  STATUS
eth0    22      left       done
eth0    80      right      error: no <route> to right
eth1    22      left       pending
wlan0   1       -          error
`

func TestGetCommandPrintsRows(t *testing.T) {
	a := startAgent(t)
	a.insert(fourPorts()...)
	for args, want := range map[string]string{
		"get ports": allPorts,
		"get ports eth0 80": `DEVICE  NUMBER  PEER-NAME  STATUS
eth0    80      right      error: no <route> to right
`,
		"get ports --status error": `DEVICE  NUMBER  PEER-NAME  STATUS
eth0    80      right      error: no <route> to right
wlan0   1       -          error
`,
		"get ports --index peer --value left -o table": `DEVICE  NUMBER  PEER-NAME  STATUS
eth0    22      left       done
eth1    22      left       pending
`,
		"get ports --index peer --prefix le --reverse --limit 1": `DEVICE  NUMBER  PEER-NAME  STATUS
eth1    22      left       pending
`,
		"get notes": "NAME  TEXT\n",
		"get ports eth0 80 -o json": `[
  {
    "key": "eth0 80",
    "revision": 2,
    "object": {
      "device": "eth0",
      "number": 80,
      "peerName": "right",
      "status": "error: no <route> to right"
    }
  }
]
`,
		"get notes -o json": "[]\n",
	} {
		out, errs, code := a.run(strings.Fields(args)...)
		if diff := cmp.Diff(want, out); diff != "" || errs != "" || code != 0 {
			t.Errorf("%s: code %d, stderr %q: %s", args, code, errs, diff)
		}
	}
}

func TestGetCommandFailsWithWhatExists(t *testing.T) {
	a := startAgent(t)
	a.insert(fourPorts()...)
	for args, want := range map[string]string{
		"get ports eth0 81":         `table ports, row "eth0 81": no such row; of its 4 rows, 1 begins with "eth0 8": eth0 80`,
		"get nets":                  `no such table "nets"; there are: health, jobs, notes, ports`,
		"get ports/../x":            `no such table "ports/../x"; there are: health, jobs, notes, ports`,
		"get ..":                    `no such table ".."; there are: health, jobs, notes, ports`,
		"get":                       `expected the name of a table; 'testhive tables' lists them`,
		"get ports --status broken": `unknown status "broken"; there are: pending, done, error`,
		"get ports --index peer":    needsKeys,
	} {
		out, errs, code := a.run(strings.Fields(args)...)
		if want := "testhive: " + want + "\n"; errs != want || out != "" || code != 1 {
			t.Errorf("%s: code %d, stdout %q, stderr:\n%swant:\n%s", args, code, out, errs, want)
		}
	}
}

func TestOddKeysAreFoundAndCannotDisturbATerminal(t *testing.T) {
	a := startAgent(t)
	for _, name := range []string{"a b", "10.0.0.0/8 table 100", "übung", "?key=x&y", "..", "x\x1b[2J"} {
		a.insert(note{Name: name, Text: "found"})
		out, errs, code := a.run("get", "notes", name)
		if code != 0 || errs != "" || !strings.Contains(out, "found") || strings.Contains(out, "\x1b") {
			t.Errorf("%q: code %d, stdout %q, stderr %q", name, code, out, errs)
		}
	}
	if _, errs, code := a.run("get", "notes", "x"); code != 1 || strings.Contains(errs, "\x1b") || !strings.Contains(errs, "x [2J") {
		t.Errorf("code %d, stderr %q", code, errs)
	}
	if _, errs, code := a.run("get", "notes", ""); code != 1 || !strings.Contains(errs, "no such row") {
		t.Errorf("empty key: code %d, stderr %q", code, errs)
	}
}

func TestCommandsMountedBelowAnotherNameItInHints(t *testing.T) {
	root, below := &cobra.Command{Use: "acme"}, &cobra.Command{Use: "node"}
	root.AddCommand(below)
	if err := cli.Mount(below, (&agent{t: t}).build()); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	root.SetErr(&errs)
	root.SetArgs([]string{"node", "get"})
	if code := cli.Execute(t.Context(), root); code != 1 || !strings.Contains(errs.String(), "'acme node tables' lists them") {
		t.Errorf("code %d, stderr %q", code, errs.String())
	}
}

func TestCommandsWithoutAnAgentSaySo(t *testing.T) {
	a := &agent{t: t, socket: t.TempDir() + "/nobody.sock"}
	for _, args := range [][]string{{"tables"}, {"get", "ports"}, {"delete", "ports", "a"}, {"put", "ports", "-f", os.DevNull}} {
		out, errs, code := a.run(args...)
		if code != 1 || out != "" || !strings.Contains(errs, a.socket) {
			t.Errorf("%v: code %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
}

func TestTablesCommandShowsMemoryOnRequest(t *testing.T) {
	a := startAgent(t)
	a.insert(fourPorts()...)
	out, errs, code := a.run("tables", "--memory")
	if !regexp.MustCompile(`(?m)^ports +4 +4 +[0-9.]+ (B|KiB) +key,peer,status`).MatchString(out) || errs != "" || code != 0 {
		t.Errorf("code %d, stderr %q, stdout:\n%s", code, errs, out)
	}
}

func TestShellCompletesTables(t *testing.T) {
	a := startAgent(t)
	a.insert(fourPorts()...)
	for args, want := range map[string][]string{
		"get":       {"health", "jobs", "notes", "ports", ":4"},
		"get ports": {":4"},
	} {
		out, _, code := a.run(append(append([]string{"__complete"}, strings.Fields(args)...), "")...)
		if diff := cmp.Diff(want, strings.Fields(out)); diff != "" || code != 0 {
			t.Errorf("%s: code %d: %s", args, code, diff)
		}
	}
}
