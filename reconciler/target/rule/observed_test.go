package rule

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// runMirror runs a mirror for a target until the end of the test.
func runMirror(t *testing.T, target *Target) (*statedb.DB, *statedb.RWTable[Seen]) {
	t.Helper()
	return nstest.Mirror(t, SeenSchema(), target.NewMirror)
}

func TestTheMirrorShowsAllRules(t *testing.T) {
	nstest.IP(t, "rule", "add", "priority", "100", "from", "10.0.0.0/8", "table", "100", "protocol", "static")
	db, seen := runMirror(t, newTarget(t))
	want := func(want ...Seen) {
		t.Helper()
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(s Seen) bool { return s.Key.Priority == 100 }, want...)
	}
	key := Key{route.Inet, 100}
	first := Seen{Key: key, From: prefix("10.0.0.0/8"), Table: 100, Action: Lookup, Protocol: unix.RTPROT_STATIC}
	want(first)
	nstest.IP(t, "rule", "add", "not", "priority", "100", "to", "192.0.2.0/24", "fwmark", "0x10/0xff", "iif", "e0", "oif", "e1",
		"tos", "0x10", "ipproto", "tcp", "suppress_prefixlength", "0", "table", "7777", "protocol", "79")
	second := Seen{
		Key: key, Order: 1, To: prefix("192.0.2.0/24"), Mark: mark(t, "0x10/0xff"), In: "e0", Out: "e1", Table: 7777, Action: Lookup,
		Protocol: rtnl.Ours, Other: "not, tos 0x10, suppress_prefixlength 0x00000000, ipproto 0x06",
	}
	want(first, second)
	nstest.IP(t, "-6", "rule", "add", "priority", "100", "prohibit", "protocol", "79")
	third := Seen{Key: Key{route.Inet6, 100}, Action: Prohibit, Protocol: rtnl.Ours}
	nstest.IP(t, "-6", "rule", "add", "priority", "100", "goto", "200", "protocol", "79")
	nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(s Seen) bool { return s.Key == third.Key && s.Order == 0 && s.Table == 0 }, third)

	// Of rules that are the same the first one goes.
	nstest.IP(t, "-6", "rule", "del", "priority", "100")
	nstest.IP(t, "-6", "rule", "del", "priority", "100")
	nstest.IP(t, "rule", "del", "priority", "100", "protocol", "static")
	want(second)
	nstest.IP(t, "rule", "del", "priority", "100")
	want()
}

func TestChangesThatTheListingHadDoNotCountAgain(t *testing.T) {
	db := statedb.New()
	table, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	s := Seen{Key: Key{route.Inet, 100}, Table: 100, Action: Lookup, Protocol: rtnl.Ours}
	k := &keeper{table: table}
	message := func(kind uint16) event {
		t.Helper()
		e, ok := k.decode(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}, Data: s.request(kind, 0).Data})
		if !ok {
			t.Fatal("it is no notification of a rule")
		}
		return e
	}
	var doubts []string
	apply := func(e event) {
		t.Helper()
		err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			doubt, err := k.apply(txn, e)
			doubts = append(doubts, doubt)
			return err
		}, table)
		if err != nil {
			t.Fatal(err)
		}
	}
	early := []event{message(unix.RTM_NEWRULE), message(unix.RTM_NEWRULE), message(unix.RTM_DELRULE)}
	k.listed = k.changes.Load() // the listing has one
	apply(message(unix.RTM_NEWRULE))
	for _, e := range early {
		apply(e)
	}
	if n := table.Len(db.ReadTxn()); n != 1 {
		t.Errorf("%d rules, expected 1", n)
	}
	apply(message(unix.RTM_NEWRULE)) // the kernel takes two that are the same
	apply(message(unix.RTM_DELRULE))
	apply(message(unix.RTM_DELRULE))
	if n := table.Len(db.ReadTxn()); n != 0 {
		t.Errorf("%d rules, expected none", n)
	}
	apply(message(unix.RTM_DELRULE))
	if diff := cmp.Diff([]string{"", "", "", "", "", "", "", "an unknown rule was removed"}, doubts); diff != "" {
		t.Errorf("doubts (-want +got):\n%s", diff)
	}
}

func TestARuleIsComparedWithWhatWasSeen(t *testing.T) {
	row := Rule{Priority: 100, From: prefix("10.0.0.0/8"), Table: 100}
	ours := Seen{Key: row.Key(), From: prefix("10.0.0.0/8"), Table: 100, Action: Lookup, Protocol: rtnl.Ours}
	others := ours
	others.Protocol = unix.RTPROT_STATIC
	at := func(order uint32, s Seen, change func(*Seen)) Seen {
		s.Order = order
		if change != nil {
			change(&s)
		}
		return s
	}
	for name, c := range map[string]struct {
		seen   []Seen
		adopt  bool
		fields []string
	}{
		"as it was seen":          {seen: []Seen{ours}},
		"not seen":                {fields: []string{"priority", "from", "action", "table"}},
		"from elsewhere":          {seen: []Seen{at(0, ours, func(s *Seen) { s.From = netip.Prefix{} })}, fields: []string{"from"}},
		"to somewhere":            {seen: []Seen{at(0, ours, func(s *Seen) { s.To = s.From })}, fields: []string{"to"}},
		"with a mark":             {seen: []Seen{at(0, ours, func(s *Seen) { s.Mark = Mark{1, 1} })}, fields: []string{"mark"}},
		"of a device":             {seen: []Seen{at(0, ours, func(s *Seen) { s.In = "e0" })}, fields: []string{"in"}},
		"by a device":             {seen: []Seen{at(0, ours, func(s *Seen) { s.Out = "e0" })}, fields: []string{"out"}},
		"with another action":     {seen: []Seen{at(0, ours, func(s *Seen) { s.Table, s.Action = 0, Blackhole })}, fields: []string{"action", "table"}},
		"with something else":     {seen: []Seen{at(0, ours, func(s *Seen) { s.Other = "tos 0x10" })}, fields: []string{"other"}},
		"twice":                   {seen: []Seen{ours, at(1, ours, nil)}, fields: []string{"rules with this priority"}},
		"beside others'":          {seen: []Seen{others, at(1, ours, nil)}},
		"others' only":            {seen: []Seen{others}, fields: []string{"priority", "from", "action", "table"}},
		"others', which we adopt": {seen: []Seen{others}, adopt: true, fields: []string{"protocol"}},
		"beside others', adopted": {seen: []Seen{others, at(1, ours, nil)}, adopt: true, fields: []string{"rules with this priority"}},
	} {
		t.Run(name, func(t *testing.T) {
			row := row
			row.Adopt = c.adopt
			row, err := row.Normalized()
			if err != nil {
				t.Fatal(err)
			}
			var fields []string
			for _, step := range row.compare(c.seen).steps {
				fields = append(fields, step.Field)
			}
			if diff := cmp.Diff(c.fields, fields); diff != "" {
				t.Errorf("fields that differ (-want +got):\n%s", diff)
			}
		})
	}
}
