package rule

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

func txn() statedb.ReadTxn { return statedb.New().ReadTxn() }

// each runs a test with a target that has a mirror, and one that has none.
func each(t *testing.T, test func(t *testing.T, target *Target)) {
	t.Helper()
	t.Run("with a mirror", func(t *testing.T) {
		target := newTarget(t)
		runMirror(t, target)
		test(t, target)
	})
	t.Run("without a mirror", func(t *testing.T) { test(t, newTarget(t)) })
}

// add makes a rule as others do, until the end of the test.
func add(t *testing.T, arguments ...string) {
	t.Helper()
	nstest.IP(t, append([]string{"rule", "add"}, arguments...)...)
	t.Cleanup(func() { _ = exec.Command("ip", append([]string{"rule", "del"}, arguments...)...).Run() })
}

func mustUpdate(t *testing.T, target *Target, row Rule, changed bool) {
	t.Helper()
	result, err := target.Update(t.Context(), txn(), row)
	if err != nil || result.Changed != changed {
		t.Fatalf("Update(%s) = %v, %v, expected changed %v", row.Key(), result, err, changed)
	}
}

func mustDelete(t *testing.T, target *Target, row Rule) {
	t.Helper()
	if err := target.Delete(t.Context(), txn(), row); err != nil {
		t.Fatal(err)
	}
}

func mustDiff(t *testing.T, target *Target, row Rule) []reconciler.Change {
	t.Helper()
	changes, err := target.Diff(t.Context(), txn(), row)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func wantObserved(t *testing.T, target *Target, want ...string) {
	t.Helper()
	var keys []string
	for row, err := range target.Observe(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, row.Key().String())
	}
	if diff := cmp.Diff(want, keys); diff != "" && len(want)+len(keys) > 0 {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

// wantLines wants rules with a priority, in their order, each with a word.
func wantLines(t *testing.T, priority int, want ...string) {
	t.Helper()
	shown := nstest.IP(t, "-N", "rule", "show", "priority", strconv.Itoa(priority))
	lines := slices.Collect(strings.Lines(shown))
	ok := len(lines) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = strings.Contains(lines[i], want[i])
	}
	if !ok {
		t.Errorf("rules with priority %d, expected %q:\n%s", priority, want, shown)
	}
}

func TestARuleThatOthersMadeIsLeftAlone(t *testing.T) {
	for name, arguments := range map[string][]string{
		"another rule":                   {"priority", "100", "to", "192.0.2.0/24", "fwmark", "1", "table", "7", "protocol", "static"},
		"the same, but for its protocol": {"priority", "100", "from", "10.0.0.0/8", "table", "100", "protocol", "static"},
		"more than the row's":            {"priority", "100", "table", "100", "protocol", "static"},
		"one without a protocol":         {"priority", "100", "from", "10.0.0.0/8", "table", "100", "protocol", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, target *Target) {
				row := Rule{Priority: 100, From: prefix("10.0.0.0/8"), Table: 100}
				add(t, arguments...)
				before := nstest.IP(t, "rule")
				_, err := target.Update(t.Context(), txn(), row)
				if !errors.Is(err, ErrForeign) {
					t.Errorf("Update: %v", err)
				}
				if _, err := target.Diff(t.Context(), txn(), row); !errors.Is(err, ErrForeign) {
					t.Errorf("Diff: %v", err)
				}
				wantObserved(t, target)
				mustDelete(t, target, row)
				if after := nstest.IP(t, "rule"); after != before {
					t.Errorf("the rules were\n%s\nand are\n%s", before, after)
				}
			})
		})
	}
}

func TestWhoHoldsAKeyIsTold(t *testing.T) {
	add(t, "priority", "100", "to", "192.0.2.0/24", "fwmark", "0x1/0xff", "iif", "e0", "table", "7", "protocol", "static")
	_, err := newTarget(t).Update(t.Context(), txn(), Rule{Priority: 100})
	const want = "rule inet 100: somebody else's rule is there (inet 100 to 192.0.2.0/24 fwmark 0x1/0xff iif e0 lookup 7, protocol static); it is left alone: remove it, choose another priority, or take its place with adopt: true"
	if fmt.Sprint(err) != want {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
}

func TestARuleOfOursIsInForceBesideOthers(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := Rule{Priority: 100, From: prefix("10.0.0.0/8"), Table: 100}
		mustUpdate(t, target, row, true)
		add(t, "priority", "100", "table", "7", "protocol", "static")
		mustUpdate(t, target, row, false)
		changed := row
		changed.Table = 101
		if _, err := target.Update(t.Context(), txn(), changed); !errors.Is(err, ErrForeign) {
			t.Errorf("Update: %v", err)
		}
		wantObserved(t, target, "inet 100")
		mustDelete(t, target, row)
		wantLines(t, 100, "lookup 7 proto 4")
	})
}

func TestARowThatAdoptsTakesThePlaceOfWhatIsThere(t *testing.T) {
	row := Rule{Priority: 100, From: prefix("10.0.0.0/8"), Table: 100, Adopt: true}
	for name, there := range map[string][][]string{
		"the same, but for its protocol": {{"from", "10.0.0.0/8", "table", "100", "protocol", "static"}},
		"another rule":                   {{"to", "192.0.2.0/24", "table", "7", "protocol", "boot"}},
		"one that is ours besides": {
			{"from", "10.0.0.0/8", "table", "100", "protocol", "79"},
			{"table", "100", "protocol", "0"}, // its removal, told so, is that of any rule that looks in the table
		},
		"several": {
			{"to", "192.0.2.0/24", "table", "7", "protocol", "boot"},
			{"blackhole", "protocol", "0"},
			{"from", "10.0.0.0/9", "table", "100", "protocol", "0"},
			{"from", "10.0.0.0/8", "table", "100", "protocol", "79"},
			{"goto", "200", "protocol", "static"},
			{"fwmark", "1", "table", "100", "protocol", "79"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, target *Target) {
				for _, arguments := range there {
					add(t, append([]string{"priority", "100"}, arguments...)...)
				}
				if len(mustDiff(t, target, row)) == 0 {
					t.Error("Diff says that nothing is to be done")
				}
				mustUpdate(t, target, row, true)
				wantLines(t, 100, "from 10.0.0.0/8 lookup 100 proto 79")
				mustUpdate(t, target, row, false)
				mustDelete(t, newTarget(t), row) // another process
				wantLines(t, 100)
			})
		})
	}
}

func TestTheKernelsOwnRulesStay(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		for _, adopt := range []bool{false, true} {
			for _, table := range []route.Table{route.MainTable, 100} { // the rule as it is, and another one
				row := Rule{Priority: 32766, Table: table, Adopt: adopt}
				_, err := target.Update(t.Context(), txn(), row)
				if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "the kernel's own") || strings.Contains(err.Error(), "adopt: true") {
					t.Errorf("Update of %+v: %v", row, err)
				}
				mustDelete(t, target, row)
			}
		}
		wantLines(t, 32766, "from all lookup 254")
		wantObserved(t, target)
	})
}

func TestARowWithAnAlternativeNameIsRefused(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		names := map[string]string{"br9": "br9", "lan": "br9"}
		target.config.ProperName = func(_ statedb.ReadTxn, device string) string { return names[device] }
		const want = ": lan is an alternative name of br9, and the kernel matches rules by proper names only: use br9"
		for field, row := range map[string]Rule{"in": {Priority: 100, In: "lan"}, "out": {Priority: 100, In: "br9", Out: "lan"}} {
			_, err := target.Update(t.Context(), txn(), row)
			_, diffErr := target.Diff(t.Context(), txn(), row)
			for _, err := range []error{err, diffErr} {
				if err == nil || err.Error() != "rule inet 100: "+field+want {
					t.Errorf("%+v: %v", row, err)
				}
			}
		}
		wantLines(t, 100)
		delete(names, "lan") // there is no such device yet
		row := Rule{Priority: 100, In: "lan", Out: "br9", Table: 100}
		mustUpdate(t, target, row, true)
		mustDelete(t, target, row)
	})
}

func TestEachFieldIsChanged(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := Rule{Priority: 100, Table: 100}
		mustUpdate(t, target, row, true)
		for field, change := range map[string]func(*Rule){
			"from":   func(r *Rule) { r.From = prefix("10.0.0.0/8") },
			"to":     func(r *Rule) { r.To = prefix("192.0.2.0/24") },
			"mark":   func(r *Rule) { r.Mark = mark(t, "0x10/0xff") },
			"in":     func(r *Rule) { r.In = "e0" },
			"out":    func(r *Rule) { r.Out = "e1" },
			"table":  func(r *Rule) { r.Table = 1001 },
			"action": func(r *Rule) { r.Table, r.Action = 0, Prohibit },
		} {
			changed := row
			change(&changed)
			for _, step := range []Rule{changed, row} { // there and back
				changes := mustDiff(t, target, step)
				if len(changes) == 0 || changes[0].Field != field {
					t.Errorf("Diff of another %s: %+v", field, changes)
				}
				mustUpdate(t, target, step, true)
				if !holds(t, step) {
					t.Errorf("with another %s, rules are\n%s", field, nstest.IP(t, "rule"))
				}
			}
		}
		mustDelete(t, target, row)
	})
}

func TestARuleIsAddedBeforeTheOldOneGoes(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		mustUpdate(t, target, Rule{Priority: 100, Table: 100}, true)
		subscription, err := rtnl.Subscribe(unix.RTNLGRP_IPV4_RULE)
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		mustUpdate(t, target, Rule{Priority: 100, From: prefix("10.0.0.0/8"), Table: 100}, true)
		var told []uint16
		if err := subscription.Drain(func(m syscall.NetlinkMessage) { told = append(told, m.Header.Type) }); err != nil {
			t.Fatal(err)
		}
		if want := []uint16{unix.RTM_NEWRULE, unix.RTM_DELRULE}; !slices.Equal(told, want) {
			t.Errorf("the kernel was told %v, expected %v", told, want)
		}
		wantLines(t, 100, "from 10.0.0.0/8 lookup 100")
		mustDelete(t, target, Rule{Priority: 100})
	})
}

func TestDuplicatesOfOursGo(t *testing.T) {
	row := Rule{Priority: 100, From: prefix("10.0.0.0/8"), Table: 100}
	each(t, func(t *testing.T, target *Target) {
		again := func() {
			w, err := row.Normalized()
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(target.conn.Execute(t.Context(), []rtnl.Request{w.seen().addition(0)})...); err != nil {
				t.Fatal(err)
			}
		}
		mustUpdate(t, target, row, true)
		again()
		nstest.IP(t, "rule", "add", "priority", "100", "fwmark", "1", "table", "100", "protocol", "79")
		wantLines(t, 100, "from 10.0.0.0/8", "from 10.0.0.0/8", "fwmark 0x1")
		wantObserved(t, target, "inet 100")
		if changes := mustDiff(t, target, row); len(changes) != 1 || changes[0].Is != "3" || changes[0].Want != "1" {
			t.Errorf("Diff: %+v", changes)
		}
		mustUpdate(t, target, row, true)
		wantLines(t, 100, "from 10.0.0.0/8 lookup 100 proto 79")
		mustUpdate(t, target, row, false)
		again()
		mustDelete(t, target, row)
		wantLines(t, 100)
	})
}

func TestARuleThatIsLikeAnOldOneIsNotRemovedInItsPlace(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		// What removes the second, which names no prefix, would remove the first.
		nstest.IP(t, "rule", "add", "priority", "100", "from", "10.0.0.0/8", "table", "100", "protocol", "79")
		nstest.IP(t, "rule", "add", "priority", "100", "table", "100", "tos", "0x10", "protocol", "79")
		row := Rule{Priority: 100, From: prefix("10.0.0.0/8"), Table: 100}
		mustUpdate(t, target, row, true)
		wantLines(t, 100, "from 10.0.0.0/8 lookup 100 proto 79")
		mustDelete(t, target, row)
	})
}

func TestAWiderRuleTakesThePlaceOfANarrowerOne(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		mustUpdate(t, target, Rule{Priority: 100, From: prefix("10.0.0.0/8"), Table: 100}, true)
		mustUpdate(t, target, Rule{Priority: 100, Table: 100}, true)
		wantLines(t, 100, "from all lookup 100 proto 79")
		mustDelete(t, target, Rule{Priority: 100})
	})
}

func TestARuleThatComesBetweenLookAndRequestIsLookedAt(t *testing.T) {
	row, err := Rule{Priority: 100, Table: 100}.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		there   []string
		changed bool
	}{
		"as it is wanted": {[]string{"table", "100"}, false},
		// The kernel takes it for the same.
		"narrower": {[]string{"from", "10.0.0.0/8", "table", "100"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			target := newTarget(t)
			nstest.IP(t, append([]string{"rule", "add", "priority", "100", "protocol", "79"}, c.there...)...)
			u := &updates{target: target, ctx: t.Context(), rows: []Rule{row}, results: make([]reconciler.BatchResult, 1), add: []int{0}}
			u.finish()
			if result := u.results[0]; result.Err != nil || result.Result.Changed != c.changed {
				t.Errorf("outcome %+v, expected changed %v", result, c.changed)
			}
			wantLines(t, 100, "from all lookup 100 proto 79")
			mustDelete(t, target, row)
		})
	}
}

func TestRulesMayNameDevicesThatAreNotThereYet(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := Rule{Priority: 100, In: "e0", Out: "e1", Table: 100}
		mustUpdate(t, target, row, true)
		mustUpdate(t, target, row, false)
		nstest.Veth(t, "e0", "e1")
		mustUpdate(t, target, row, false)
		nstest.IP(t, "link", "del", "e0")
		nstest.Veth(t, "e0", "e1") // made again
		mustUpdate(t, target, row, false)
		wantLines(t, 100, "iif e0 oif e1 lookup 100")
		mustDelete(t, target, row)
	})
}
