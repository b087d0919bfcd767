package reconcilercell_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
)

// run runs a command line.
func (r running) run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	root := &cobra.Command{Use: "test"}
	if err := cli.Mount(root, newHive(t, reconcilercell.Cell())); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append(args, "--socket", r.socket))
	code = cli.Execute(t.Context(), root)
	return code, stdout.String(), stderr.String()
}

// says runs a command line that must succeed, and checks that its output has the parts.
func (r running) says(t *testing.T, line string, parts ...string) {
	t.Helper()
	code, out, errs := r.run(t, strings.Fields(line)...)
	if code != 0 {
		t.Errorf("%s: exit code %d: %s", line, code, errs)
	}
	for _, part := range parts {
		if !strings.Contains(out, part) {
			t.Errorf("%s: printed %q, which has no %q", line, out, part)
		}
	}
}

// fails runs a command line that must fail with a part in its error.
func (r running) fails(t *testing.T, line, part string) {
	t.Helper()
	code, out, errs := r.run(t, strings.Fields(line)...)
	if code == 0 || !strings.Contains(errs, part) || out != "" {
		t.Errorf("%s: exit code %d, printed %q and the error %q, which has no %q", line, code, out, errs, part)
	}
}

// eventuallyFails runs a command line until its error has the part.
func (r running) eventuallyFails(t *testing.T, line, part string) {
	t.Helper()
	var errs string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if _, _, errs = r.run(t, strings.Fields(line)...); strings.Contains(errs, part) {
			return
		}
	}
	t.Fatalf("%s: printed the error %q, which has no %q", line, errs, part)
}

// eventually runs a command line until its output has the part.
func (r running) eventually(t *testing.T, line, part string) {
	t.Helper()
	var out string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if _, out, _ = r.run(t, strings.Fields(line)...); strings.Contains(out, part) {
			return
		}
	}
	t.Fatalf("%s: printed %q, which has no %q", line, out, part)
}

func TestExplainPrintsHowItStandsWithARow(t *testing.T) {
	r := start(t, "")
	r.insert(t, "bad", "good")
	r.eventually(t, "explain things bad", "waits for:    terminal error: a new spec or a full pass\n")
	r.says(t, "explain things bad", "row:          things bad\n", "status:       error since ", "written by:   file of things bad\n",
		": no such thing\n", "attempt:      ")
	r.eventually(t, "explain things good", "waits for:    nothing: it is done\n")
	_, out, _ := r.run(t, "explain", "things", "bad", "-o", "json")
	var e reconciler.Explanation
	if err := json.Unmarshal([]byte(out), &e); err != nil || e.Key != "bad" || e.WaitsFor[0].Cause != "terminal" || len(e.LastAttempts) != 1 {
		t.Errorf("%v: got %+v", err, e)
	}
}

func TestCommandsSayWhatThereIsInsteadOfAMistake(t *testing.T) {
	r := start(t, "")
	r.insert(t, "eth0", "eth1")
	r.allDone(t) // so the reconciler runs, which it does a little after its hive has started
	for line, want := range map[string]string{
		"explain thing eth0":                  `no reconciler is named "thing", or the only one of such a table; there are: things`,
		"explain ../x eth0":                   `there are: things`,
		"explain things eth":                  `table things: key "eth": no such row; similar keys: eth0, eth1`,
		"trigger things eth":                  `table things: key "eth": no such row; similar keys: eth0, eth1`,
		"pause things eth":                    `similar keys: eth0, eth1`,
		"forget things eth0":                  `is in the table, and only a delete can be forgotten`,
		"trigger things":                      `which rows? Give a KEY, --where INDEX=KEY, --status STATUS or --all`,
		"trigger things eth0 --all":           `rows are selected by 2 of key, where, status, all, expected one of them`,
		"trigger things --where color":        `parameter "where" is "color", expected INDEX=KEY`,
		"trigger things --where color=red":    `there are: id, kind, status`,
		"trigger things --status bad":         `status kind "bad" is unknown, expected pending, done or error`,
		"pause things --all --for=-1s":        `parameter "for" is "-1s", expected a duration such as 10m`,
		"limits things --rate=-1":             `parameter "rate" is "-1", expected a number that is not negative`,
		"limits things --burst=1":             `parameter "burst" needs "rate"`,
		"resync nothings":                     `there are: things`,
		"trigger things --where=kind=x --for": `unknown flag: --for`,
	} {
		r.fails(t, line, want)
	}
	var acted reconcilercell.Acted
	err := r.client.Send(t.Context(), http.MethodPost, "/v1/reconcilers/things/full", url.Values{"x": {"1"}}, nil, &acted)
	if err == nil || !strings.Contains(err.Error(), `unknown parameter "x"`) {
		t.Errorf("got %v", err)
	}
}

func TestTriggerAppliesTheRowsThatAreMeant(t *testing.T) {
	r := start(t, "")
	r.insert(t, "bad", "eth0", "eth1", "lo")
	r.eventually(t, "explain things bad", "failed:       1 in a row")
	r.eventually(t, "explain things lo", "nothing: it is done")
	r.says(t, "trigger things --status error", "things: 1 row triggered\n")
	r.eventually(t, "explain things bad", "failed:       2 in a row")
	r.says(t, "explain things bad", "because of manual")
	r.says(t, "trigger things --status pending", "things: 0 rows triggered\n")
	r.says(t, "trigger things --where kind=e", "things: 2 rows triggered\n")
	r.says(t, "trigger things lo", "things: 1 row triggered\n")
	r.says(t, "trigger things --all -o json", `"rows": 4`)
	r.eventually(t, "explain things bad", "failed:       3 in a row")
}

func TestPauseHoldsRowsUntilTheyAreResumed(t *testing.T) {
	r := start(t, "")
	r.insert(t, "a")
	r.eventually(t, "explain things a", "nothing: it is done")
	r.says(t, "pause things --all", "things: paused\n")
	r.insert(t, "b")
	r.eventually(t, "explain things b", "waits for:    paused: until it is resumed\n")
	r.eventually(t, "explain things a", "paused: its next change waits until it is resumed\n")
	r.fails(t, "resume things b", "all rows are paused, and stay so until all are resumed")
	r.says(t, "resume things --all", "things: resumed\n")
	r.eventually(t, "explain things b", "nothing: it is done")
	r.says(t, "pause things b --for 1h", "things: 1 row paused until ")
	r.says(t, "resume things b", "things: 1 row resumed\n")
	r.says(t, "pause things a --for 10ms", "until ")
	r.eventually(t, "explain things a", "waits for:    nothing: it is done\n")
}

func TestLimitsAreShownAndChanged(t *testing.T) {
	r := start(t, "")
	r.says(t, "limits things", "things: rounds of 1000, operations not limited\n")
	r.says(t, "limits things --rate 100 --round 10", "things: rounds of 10, 100 operations per second in bursts of 100\n")
	r.says(t, "limits things --rate 5 --burst 2", "things: rounds of 10, 5 operations per second in bursts of 2\n")
	r.says(t, "limits things --rate 0", "things: rounds of 10, operations not limited\n")
	r.says(t, "limits things --round 1000", "things: rounds of 1000, operations not limited\n")
}

func TestResyncAppliesAllRowsAgain(t *testing.T) {
	r := start(t, "")
	r.insert(t, "bad")
	r.eventually(t, "explain things bad", "failed:       1 in a row")
	r.says(t, "resync things", "things: resync asked for\n")
	r.eventually(t, "explain things bad", "failed:       2 in a row")
}

func TestForgetGivesUpADeleteThatFails(t *testing.T) {
	r := start(t, "")
	r.insert(t, "stays")
	r.allDone(t)
	r.delete(t, "stays")
	r.eventually(t, "explain things stays", "deleted from the table, and still to be deleted by the target\n")
	r.says(t, "forget things stays", "things: 1 row forgotten\n")
	r.fails(t, "explain things stays", "no such row")
}

func TestAHeldPlanIsShownAndApproved(t *testing.T) {
	r := start(t, "")
	r.insert(t, manyIDs(20)...)
	r.allDone(t)
	r.says(t, "plan things", "nothing is held\n")
	r.fails(t, "approve things x", `plan "x" cannot be approved: nothing is held`)
	r.fails(t, "approve things", "expected a TABLE and the id of the PLAN to approve, which 'plan TABLE' shows")
	r.deleteAll(t)
	r.eventually(t, "plan things", "20 deletes and 0 updates of 20 rows\nKEY  OPERATION  CHANGES\nn10  delete     -\n")
	_, out, _ := r.run(t, "plan", "things", "-o", "json")
	var plan reconciler.Plan
	if err := json.Unmarshal([]byte(out), &plan); err != nil || plan.Deletes != 20 {
		t.Fatalf("%v: %s", err, out)
	}
	r.says(t, "explain things n10", "waits for:    limit: until its delete is approved", "part of plan "+plan.ID+"\n")
	r.fails(t, "approve things x", `plan "x" cannot be approved: it is outdated, the current plan is "`+plan.ID+`"`)
	r.says(t, "approve things "+plan.ID, "things: plan "+plan.ID+" approved\n")
	r.eventually(t, "plan things", "nothing is held")
}

func TestFailuresAreShownByReason(t *testing.T) {
	r := start(t, "")
	r.insert(t, "eth0", "stays")
	r.allDone(t)
	r.says(t, "failures things", "nothing fails\n")
	r.says(t, "failures things -o json", "[]\n")
	r.fails(t, "failures thing", "there are: things")
	r.insert(t, "bad")
	r.delete(t, "stays")
	r.eventually(t, "failures things", "delete")
	r.eventually(t, "failures things", "update")
	_, out, _ := r.run(t, "failures", "things")
	var lines []string
	for line := range strings.Lines(age.ReplaceAllString(out, "ago")) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"ROWS OPERATION SINCE ERROR KEYS", "1 delete ago it is in use stays", "1 update ago no such thing bad"}
	if !slices.Equal(lines, want) {
		t.Errorf("printed %q, expected %q", lines, want)
	}
	_, out, _ = r.run(t, "failures", "things", "-o", "json")
	var groups []reconciler.FailureGroup
	if err := json.Unmarshal([]byte(out), &groups); err != nil || len(groups) != 2 || groups[1].Count != 1 || !slices.Equal(groups[1].Examples, []string{"bad"}) {
		t.Errorf("%v: got %s", err, out)
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	r := running{socket: "none"}
	for _, name := range []string{"explain", "trigger", "pause", "resume", "resync", "limits", "forget", "plan", "approve", "failures"} {
		r.says(t, name+" --help", "Examples:\n  "+name+" ", "-o, --output", "TABLE is a table with one reconciler")
	}
}
