package targettest_test

import (
	"flag"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTargetsThatKeepTheContractPass(t *testing.T) {
	targettest.Run(t, contract("", whole))
	targettest.Run(t, contract("", hiding))
	targettest.Run(t, contract("", func(n *notes) reconciler.Target[row] { return delegating{n} }))
	inRealTime := contract("", whole)
	inRealTime.Virtual = false
	targettest.Run(t, inRealTime)
}

func TestTheTargetOfTheExampleKeepsTheContract(t *testing.T) { checkFiles(t) }

func TestAContractThatIsIncompleteIsRefused(t *testing.T) {
	whole := contract("", whole)
	for want, change := range map[string]func(*targettest.Contract[row]){
		"Open or Key is nil":                  func(c *targettest.Contract[row]) { c.Key = nil },
		"Rows is empty":                       func(c *targettest.Contract[row]) { c.Rows = nil },
		`two of Rows have the key "a"`:        func(c *targettest.Contract[row]) { c.Rows = []row{{"a", "1"}, {"a", "2"}} },
		`a variant has the key "c", expected`: func(c *targettest.Contract[row]) { c.Variants = []row{{"c", "1"}} },
	} {
		c := whole
		change(&c)
		if err := targettest.Prepare(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
}

// broken are targets that break the contract in one way, the rule that each of
// them breaks, and a part of what is said about it.
var broken = []struct{ fault, rule, complaint string }{
	{"delete of what is absent fails", "deleting what is absent succeeds", "Delete(a): absent"},
	{"changed is always false", "update applies a row and reports a change", "Update(a).Changed = false, expected true: it was absent"},
	{"update writes nothing", "update applies a row and reports a change", "after Update(a) Contract.Holds is false"},
	{"update panics", "update applies a row and reports a change", "Update(a) panics: ouch"},
	{"update ends its goroutine", "update applies a row and reports a change", "Update(a) ended its goroutine by runtime.Goexit"},
	{"asks to be run again in the past", "update applies a row and reports a change", "Update(a).Again = -1ns, expected no time in the past"},
	{"delete does nothing", "delete removes the object", "after Delete(a) Contract.Holds is true"},
	{"delete of what it has deleted fails", "deleting again succeeds", "Delete(a): absent"},
	{"changed is always true", "update again changes nothing", "Update(a).Changed = true, expected false: the last Update succeeded"},
	{"init forgets", "init may be repeated", "Update(a).Changed = true, expected false: Init was repeated"},
	{"observe skips one", "observe yields each object once", `Observe yields ["a"], expected ["a" "b"]`},
	{"observe yields things twice", "observe yields each object once", `Observe yields ["a" "a"], expected ["a"]`},
	{"observe yields what is gone", "observe yields each object once", `Observe yields ["a" "b"], expected ["a"]`},
	{"observe goes on when left early", "observe may be stopped early", "Observe yields 2 times, although the loop ended after yield 1"},
	{"observe keeps its lock when left early", "observe may be stopped early", "Observe has not returned within 10s"},
	{"observe yields no values, which delete needs", "what observe yields can be deleted", `Observe yields ["a" "b"], expected ["b"]`},
	{"diff makes what is due", "diff writes nothing", `Observe yields ["a"], expected []`},
	{"diff fails", "diff writes nothing", "Diff(a): no idea"},
	{"diff is blind", "diff reports what update would change", "Diff(a) reports no change, expected some: it is absent"},
	{"diff sees ghosts", "diff reports what update would change", "Diff(a) = [{value 1 1}], expected no change"},
	{"diff names no field", "diff reports what update would change", "expected a field and two different values"},
	{"update keeps what is there", "a changed row is applied", "after Update(b) Contract.Holds is false"},
	{"delete needs the values of the row", "delete removes what an older row made", "after Delete(b) Contract.Holds is true"},
	{"prune does nothing", "prune removes what is not desired", "Prune with all rows desired but b = 0, expected 1"},
	{"prune knows its own things only", "prune removes what is not desired", "Prune by a new process with nothing desired = 0, expected 2"},
	{"prune removes all", "prune removes what is not desired", "Prune with all rows desired but b = 2, expected 1"},
	{"update ignores the context", "an ended context stops operations", "an operation whose context has ended must do nothing"},
	{"delete ignores the context", "an ended context stops operations", "a delete whose context has ended must delete nothing"},
	{"a listing cut short is no error", "an ended context stops operations", "Observe yields 0 rows and no error with an ended context"},
	{"at an end update says that it is done", "an ended context stops operations", "Update(a) succeeds with an ended context"},
	{"at an end delete says that it is done", "an ended context stops operations", "Delete(a) succeeds with an ended context"},
	{"at an end diff guesses", "an ended context stops operations", "with an ended context, expected an error or no change"},
	{"at an end update leaves its tools", "a crash inside an operation loses nothing", `after a crash, expected "a" at most`},
	{"init ignores the context", "an ended context stops operations", "Init succeeds with an ended context"},
	{"prune ignores the context", "an ended context stops prune", "Prune succeeds with an ended context"},
	{"a listing interrupted is no error", "an interrupted observe yields an error", `Observe yields ["a"] and no error`},
	{"init fails for good once it was interrupted", "an interrupted init can be repeated", "Init, repeated after it was interrupted: too late"},
	{"prune strikes first", "an interrupted prune can be repeated", "Update(b).Changed = false, expected true"},
	{"hangs when its context has ended", "an ended context stops operations", "Update(a) has not returned within 10s"},
	{"takes a plan for done", "an interrupted operation can be repeated", "after Update(a) Contract.Holds is false"},
	{"the end of a context is terminal", "the end of a context is not a terminal error", "is terminal, so the operation would not be retried"},
	{"knows its things in memory only", "a new process finds what the last one made", `Observe yields [], expected ["a" "b"]`},
	{"records what it has made afterwards", "a crash inside an operation loses nothing", `Observe yields [], expected ["a"]`},
	{"believes its memory", "an object removed behind its back is made again", "after Update(a) Contract.Holds is false"},
	{"sees only whether it is there", "an object changed behind its back is repaired", "after Update(a) Contract.Holds is false"},
	{"panics when it is gone meanwhile", "an object removed during an operation is made by the next", "panics: gone"},
	{"gives up when it is gone meanwhile", "an object removed during an operation is made by the next", "is terminal, so the operation would not be retried"},
	{"writes back what it has read", "different keys do not disturb each other", "while other goroutines worked on other keys"},
	{"observe yields what others made", "foreign objects stay and are not observed", `Observe yields ["other"], expected []`},
	{"init removes what it does not know", "foreign objects stay and are not observed", "foreign objects are not intact after Init"},
	{"prune removes what others made", "foreign objects stay and are not observed", "foreign objects are not intact after Prune"},
	{"refuses for now only", "an invalid row gets a terminal error", "is not terminal, so it would be retried in vain: a note has a value"},
	{"diff accepts what cannot be", "an invalid row gets a terminal error", "Diff(c) of an invalid row returns"},
	{"a batch has few outcomes", "a batch applies each of its rows", "UpdateBatch: 1 outcomes for 2 rows, expected one for each"},
	{"a batch does its last row only", "a batch applies each of its rows", "after UpdateBatch with a Contract.Holds is false"},
	{"a batch fails as a whole", "a batch applies each of its rows", "UpdateBatch fails for a: batch"},
	{"a batch says that nothing changed", "a batch applies each of its rows", "UpdateBatch has Changed = false for a, expected true"},
	{"a batch of deletes fails for what is absent", "a batch of deletes removes each of its rows", "DeleteBatch fails for b: absent"},
	{"a batch goes on without its context", "an ended context stops a batch", "UpdateBatch succeeds for a with an ended context"},
	{"a batch of deletes goes on without its context", "an ended context stops a batch", "DeleteBatch succeeds for a with an ended context"},
	{"a batch takes what was interrupted for done", "an interrupted batch can be repeated", "after Update(b) Contract.Holds is false"},
	{"a batch gives up when its context ends", "an interrupted batch can be repeated", "is terminal, so the operation would not be retried"},
	{"a batch records what it has made afterwards", "a crash inside a batch loses nothing", "UpdateBatch has Changed = false for a, expected true: DeleteBatch should have removed it"},
	{"a batch keeps its slice", "a batch does not keep its slice", `Observe yields [], expected ["a" "b"]`},
	{"a batch refuses for now only", "an invalid row fails alone in its batch", "for the invalid row c, expected a terminal error"},
	{"a batch is refused for one row", "an invalid row fails alone in its batch", "expected only the invalid row c to fail"},
	{"a batch of diffs looks at its first row only", "a batch of diffs agrees with diff", "when every other one of Rows exists, expected the result of Diff"},
	{"a batch of diffs has few outcomes", "a batch of diffs agrees with diff", "DiffBatch: 4 outcomes for 5 rows"},
	{"accepts what cannot be", "an invalid row gets a terminal error", "of an invalid row succeeds"},
}

var runBroken = flag.Bool("broken", false, "run TestBroken, which is to fail")

func TestBroken(t *testing.T) {
	if !*runBroken {
		return
	}
	for _, b := range broken {
		t.Run(b.fault, func(t *testing.T) {
			variant := whole
			switch {
			case strings.HasPrefix(b.fault, "prune "):
				variant = hiding
			case strings.HasPrefix(b.fault, "a batch "):
				variant = together
			case strings.HasPrefix(b.fault, "at an end "):
				variant = func(n *notes) reconciler.Target[row] { return ending{n} }
			}
			targettest.Run(t, contract(b.fault, variant))
		})
	}
}

// A test that fails cannot be run inside one that passes: they get a process.
func TestEachRuleIsBrokenByTheTargetsThatBreakIt(t *testing.T) {
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBroken$", "-test.v", "-broken")
	out, err := command.CombinedOutput()
	if err == nil {
		t.Fatalf("broken targets pass:\n%s", out)
	}
	failures := failedRules(string(out))
	for _, b := range broken {
		if got := failures[b.fault]; !slices.Equal(got, []string{b.rule}) {
			t.Errorf("a target whose fault is %q fails %q, expected %q\n%s", b.fault, got, b.rule, reportOn(string(out), b.fault))
		} else if report := reportOn(string(out), b.fault); !strings.Contains(report, b.complaint) {
			t.Errorf("of a target whose fault is %q is said\n%s\nexpected %q", b.fault, report, b.complaint)
		}
	}
}

func TestEachRuleHasATargetThatBreaksIt(t *testing.T) {
	rules := targettest.RuleNames()
	for _, rule := range rules {
		if !slices.ContainsFunc(broken, func(b struct{ fault, rule, complaint string }) bool { return b.rule == rule }) {
			t.Errorf("no target breaks the rule %q", rule)
		}
	}
}

var failLine = regexp.MustCompile(`(?m)^ *--- FAIL: TestBroken/([^/]+)/([^/ ]+) \(`)

// failedRules returns the rules that failed, by fault.
func failedRules(out string) map[string][]string {
	failed := map[string][]string{}
	for _, match := range failLine.FindAllStringSubmatch(out, -1) {
		fault := strings.ReplaceAll(match[1], "_", " ")
		failed[fault] = append(failed[fault], strings.ReplaceAll(match[2], "_", " "))
	}
	return failed
}

// reportOn returns what is printed while a fault is tried.
func reportOn(out, fault string) string {
	begin := "=== RUN   TestBroken/" + strings.ReplaceAll(fault, " ", "_") + "\n"
	_, rest, _ := strings.Cut(out, begin)
	var report strings.Builder
	for line := range strings.Lines(rest) {
		running := strings.HasPrefix(line, "=== RUN")
		if running && strings.Count(line, "/") == 1 {
			break // the next fault
		}
		if !running {
			report.WriteString(line)
		}
	}
	return report.String()
}
