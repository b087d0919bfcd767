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
	ips := map[string]*nstest.Shower{"-4": newShower(t, "-4"), "-6": newShower(t, "-6")}
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
		Holds:   func(t *testing.T, row Rule) bool { return holdsBy(t, ips[familyFlag(row)], row) },
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

// shown is a rule as ip(8) shows it.
type shown struct {
	From     string `json:"src"`
	FromBits int    `json:"srclen"`
	To       string `json:"dst"`
	ToBits   int    `json:"dstlen"`
	Mark     string `json:"fwmark"`
	Mask     string `json:"fwmask"`
	In       string `json:"iif"`
	Out      string `json:"oif"`
	Table    string `json:"table"`
	Action   string `json:"action"`
	Protocol string `json:"protocol"`
}

func newShower(t *testing.T, family string) *nstest.Shower {
	t.Helper()
	return nstest.NewShower(t, family, "-N", "-details")
}

// holds reports whether there is a single rule of ours, as ip(8) shows it.
func holds(t *testing.T, row Rule) bool {
	t.Helper()
	return holdsBy(t, newShower(t, familyFlag(row)), row)
}

func holdsBy(t *testing.T, ip *nstest.Shower, row Rule) bool {
	t.Helper()
	row, err := row.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	var rules []shown
	ip.Show(t, &rules, "rule", "show", "priority", strconv.Itoa(int(row.Priority)))
	want := shown{From: "all", In: row.In, Out: row.Out, Protocol: "79"}
	if row.From.IsValid() {
		want.From, want.FromBits = row.From.Addr().String(), shownBits(row.From)
	}
	if row.To.IsValid() {
		want.To, want.ToBits = row.To.Addr().String(), shownBits(row.To)
	}
	if want.Mark, want.Mask, _ = strings.Cut(row.Mark.String(), "/"); want.Mark == "0x0" {
		want.Mark = "0"
	}
	if row.Action == Lookup {
		want.Table = strconv.Itoa(int(row.Table))
	} else {
		want.Action = strconv.Itoa(int(actionNumbers[row.Action]))
	}
	return slices.Equal(rules, []shown{want})
}

// shownBits is the length of a prefix, which is not shown for hosts.
func shownBits(p netip.Prefix) int {
	if p.IsSingleIP() {
		return 0
	}
	return p.Bits()
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
