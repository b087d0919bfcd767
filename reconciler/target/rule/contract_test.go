package rule

import (
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/reconciler/targettest"
)

func newTarget(t *testing.T) *Target {
	t.Helper()
	target, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return target
}

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func mark(t *testing.T, text string) Mark {
	t.Helper()
	m, err := ParseMark(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTargetKeepsTheContract(t *testing.T) {
	keepsTheContract(t, newTarget)
}

func TestTargetWithAMirrorKeepsTheContract(t *testing.T) {
	keepsTheContract(t, func(t *testing.T) *Target {
		t.Helper()
		target := newTarget(t)
		runMirror(t, target)
		return target
	})
}

func keepsTheContract(t *testing.T, open func(*testing.T) *Target) {
	t.Helper()
	everything := Rule{
		Priority: 106, From: prefix("10.0.0.0/8"), To: prefix("192.0.2.0/24"), Mark: mark(t, "0x10/0xff"), In: "e0", Out: "e1",
		Table: 1000, Action: Lookup,
	}
	changed := everything
	changed.From, changed.Mark, changed.Table, changed.Action = netip.Prefix{}, mark(t, "0x11/0xff"), 0, Prohibit
	targettest.Run(t, targettest.Contract[Rule]{
		Open: func(t *testing.T) reconciler.Target[Rule] { return open(t) },
		Key:  func(r Rule) string { return r.Key().String() },
		Rows: []Rule{
			{Priority: 100, From: prefix("10.0.0.0/8"), Table: 100},
			{Priority: 101},
			{Priority: 102, Family: route.Inet6, Mark: mark(t, "7"), Table: 1 << 20},
			{Priority: 100, From: prefix("2001:db8::/32"), Table: 100},
			{Priority: 103, To: prefix("10.0.0.0/8"), Action: Blackhole},
			{Priority: 104, In: "e0", Action: Unreachable},
			{Priority: 105, Out: "e0", Action: Prohibit, Family: route.Inet6},
			everything,
		},
		Variants: []Rule{
			{Priority: 100, Table: 100},
			{Priority: 100, From: prefix("10.1.0.0/16"), Table: 100},
			{Priority: 101, Mark: mark(t, "0/0xff"), Table: 100},
			{Priority: 102, Family: route.Inet6, Mark: mark(t, "7/0xffff"), Table: 1 << 20},
			{Priority: 103, To: prefix("10.0.0.0/8"), Action: Lookup, Table: 7},
			changed,
		},
		Invalid: []Rule{
			{},
			{Priority: 107, Family: "ipx"},
			{Priority: 107, From: prefix("10.0.0.1/8")},
			{Priority: 107, Action: Blackhole, Table: 5},
		},
		Holds:   holds,
		Remove:  remove,
		Disturb: disturb,
		Foreign: foreign,
	})
}

func familyFlag(r Rule) string {
	if r.Key().Family == route.Inet6 {
		return "-6"
	}
	return "-4"
}

// lines returns the lines that ip(8) has for the rules with the priority of a row.
func lines(t *testing.T, row Rule) []string {
	t.Helper()
	shown := nstest.IP(t, "-N", "-d", familyFlag(row), "rule", "show", "priority", strconv.Itoa(int(row.Priority)))
	return strings.Split(strings.TrimSuffix(shown, "\n"), "\n")
}

func wordAfter(words []string, word string) string {
	if i := slices.Index(words, word); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

// holds reports whether there is a single rule of ours, as ip(8) shows it.
func holds(t *testing.T, row Rule) bool {
	t.Helper()
	row, err := row.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	shown := lines(t, row)
	words := strings.Fields(shown[0])
	from, action := "all", wordAfter(words, "lookup")
	if row.From.IsValid() {
		from = row.From.String()
	}
	table := ""
	if row.Action == Lookup {
		table = strconv.Itoa(int(row.Table))
	} else {
		action = ""
		if !slices.Contains(words, strconv.Itoa(int(actionNumbers[row.Action]))) {
			return false
		}
	}
	fwmark := wordAfter(words, "fwmark")
	if mask, isZero := strings.CutPrefix(fwmark, "0/"); isZero {
		fwmark = "0x0/" + mask
	}
	return len(shown) == 1 && action == table && wordAfter(words, "from") == from && wordAfter(words, "to") == prefixText(row.To) &&
		fwmark == row.Mark.String() && wordAfter(words, "iif") == row.In && wordAfter(words, "oif") == row.Out &&
		wordAfter(words, "proto") == "79"
}

func remove(t *testing.T, row Rule) {
	t.Helper()
	nstest.TryIP(t, familyFlag(row), "rule", "del", "priority", strconv.Itoa(int(row.Priority)), "protocol", "79")
}

// disturb puts another rule of our protocol into the place of a row's.
func disturb(t *testing.T, row Rule) {
	t.Helper()
	remove(t, row)
	nstest.IP(t, familyFlag(row), "rule", "add", "priority", strconv.Itoa(int(row.Priority)), "table", "77", "tos", "0x10", "protocol", "79")
}

// foreign makes rules as others do, also with a priority that ours of the other family
// has.
func foreign(t *testing.T) func() bool {
	t.Helper()
	others := [][]string{
		{"-4", "priority", "90", "from", "10.0.0.0/8", "table", "100", "protocol", "static"},
		{"-4", "priority", "102", "table", "100", "protocol", "static"},
		{"-6", "priority", "101", "table", "254", "protocol", "boot"},
	}
	for _, other := range others {
		nstest.IP(t, append([]string{other[0], "rule", "add"}, other[1:]...)...)
		t.Cleanup(func() { _ = exec.Command("ip", append([]string{other[0], "rule", "del"}, other[1:]...)...).Run() })
	}
	return func() bool {
		for _, other := range others {
			shown := nstest.IP(t, "-d", other[0], "rule", "show", "priority", other[2])
			if !strings.Contains(shown, "proto "+other[len(other)-1]) {
				return false
			}
		}
		return true
	}
}
