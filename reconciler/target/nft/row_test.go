package nft

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func fieldErrors(err error) (all []string) {
	var one *reconciler.FieldError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, fieldErrors(e)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return []string{one.Field + ": " + one.Err.Error()}
	}
	return []string{fmt.Sprint(err)}
}

func TestWhatIsWrongIsSaidWithItsPlace(t *testing.T) {
	input := func(rules ...Rule) []Chain {
		return []Chain{{Name: "input", Hook: "input", Priority: PriorityOf(0), Rules: rules}}
	}
	sets := []Set{
		{Name: "hosts", Type: IPv4Addr},
		{Name: "hosts6", Type: IPv6Addr},
		{Name: "services", Type: InetService},
	}
	const expectedVerdict = "expected exactly one of accept, drop, reject, jump, masquerade, snat, dnat"
	for _, c := range []struct {
		row  Table
		want []string
	}{
		{Table{}, []string{"name: it is missing, expected a name", "family: it is missing, expected inet, ip or ip6"}},
		{Table{Name: "a b", Family: "arp"}, []string{
			`name: "a b" is no name, expected a letter and then letters, digits, dashes, underscores, dots and slashes`,
			`family: "arp" is not supported, expected inet, ip or ip6`,
		}},
		{Table{Name: strings.Repeat("a", 256), Family: "ipx"}, []string{
			"name: the name has 256 bytes, expected at most 255", `family: "ipx" is unknown, expected inet, ip or ip6`,
		}},
		{Table{Name: "t", Family: Inet, Sets: []Set{{Name: "a", Type: "mark"}, {Name: "a", Type: IPv4Addr, Elements: []Element{"192.0.2.1", "2001:db8::1"}}, {}}}, []string{
			`sets[0].type: "mark" is unknown, expected ipv4_addr, ipv6_addr or inet_service`,
			`sets[1].name: there are two sets "a"`,
			"sets[1].elements[1]: 2001:db8::1 is not of type ipv4_addr",
			"sets[2].name: it is missing, expected a name",
			"sets[2].type: it is missing, expected ipv4_addr, ipv6_addr or inet_service",
		}},
		{Table{Name: "t", Family: Inet, Sets: []Set{
			{Name: "a", Type: InetService, Elements: []Element{"70000"}},
			{Name: "b", Type: InetService, Elements: []Element{"20-10"}},
			{Name: "c", Type: IPv4Addr, Elements: []Element{"10.0.0.1/8"}},
			{Name: "d", Type: IPv4Addr, Elements: []Element{"10.0.0.9-10.0.0.1"}},
			{Name: "e", Type: IPv4Addr, Elements: []Element{"10.0.0.9-2001:db8::1"}},
			{Name: "f", Type: IPv6Addr, Elements: []Element{"::ffff:10.0.0.1"}},
			{Name: "g", Type: IPv6Addr, Elements: []Element{"fe80::1%eth0"}},
			{Name: "h", Type: IPv4Addr, Elements: []Element{"a-b"}},
		}}, []string{
			`sets[0].elements[0]: "70000" is no port, expected a number from 0 to 65535, a range such as 1000-2000, or @ and the name of a set`,
			"sets[1].elements[0]: the range 20-10 ends before it begins",
			"sets[2].elements[0]: 10.0.0.1/8 has bits set beyond its prefix length, expected 10.0.0.0/8",
			"sets[3].elements[0]: the range 10.0.0.9-10.0.0.1 ends before it begins",
			"sets[4].elements[0]: the range 10.0.0.9-2001:db8::1 begins and ends with addresses of different families",
			"sets[5].elements[0]: ::ffff:10.0.0.1 is an IPv4 address written as IPv6, expected 10.0.0.1",
			"sets[6].elements[0]: fe80::1%eth0 has a zone, expected only the address",
			`sets[7].elements[0]: "a-b" is no range of addresses, expected one such as 10.0.0.1-10.0.0.9`,
		}},
		{Table{Name: "t", Family: Inet, Chains: []Chain{{Name: "c", Policy: "drop"}, {Name: "c", Hook: "ingress", Policy: "reject", Type: "x"}}}, []string{
			"chains[0].policy: it is given, but only chains with a hook have one",
			`chains[1].name: there are two chains "c"`,
			`chains[1].hook: "ingress" is unknown, expected prerouting, input, forward, output or postrouting`,
			"chains[1].priority: it is missing, expected a number or one of raw, mangle, dstnat, filter, security, srcnat",
			`chains[1].policy: "reject" is unknown, expected accept or drop`,
			`chains[1].type: "x" is unknown, expected filter, nat or route`,
		}},
		{Table{Name: "t", Family: Inet, Chains: input(Rule{}, Rule{Accept: true, Drop: true}, Rule{Jump: "input"}, Rule{Jump: "nowhere"})}, []string{
			"chains[0].rules[0]: nothing says what becomes of the packet, " + expectedVerdict,
			"chains[0].rules[1]: accept and drop are given, " + expectedVerdict,
			`chains[0].rules[2].jump: chain "input" has a hook, expected one without`,
			`chains[0].rules[3].jump: there is no chain "nowhere" in this table`,
		}},
		{Table{Name: "t", Family: Inet, Sets: sets, Chains: input(
			Rule{Match: Match{Iif: "a-name-that-is-too-long"}, Drop: true},
			Rule{Match: Match{Oif: "*"}, Drop: true},
			Rule{Match: Match{Oif: "a/b"}, Drop: true},
			Rule{Match: Match{Saddr: addresses("@none"), Daddr: addresses("@services")}, Drop: true},
			Rule{Match: Match{Dport: ports("22")}, Drop: true},
			Rule{Match: Match{Proto: 6, Sport: ports("@hosts"), Dport: ports("@none")}, Drop: true},
			Rule{Match: Match{CtState: []string{"new", "old"}}, Drop: true},
			Rule{Match: Match{Saddr: addresses("@hosts"), Daddr: addresses("@hosts6")}, Drop: true},
			Rule{Dnat: translationTo("192.0.2.1:80")},
			Rule{Match: Match{Saddr: addresses("192.0.2.1")}, Dnat: translationTo("2001:db8::1")},
		)}, []string{
			`chains[0].rules[0].match.iif: "a-name-that-is-too-long" is longer than names of interfaces, which have at most 15 bytes`,
			"chains[0].rules[1].match.oif: a star alone is any interface: leave the field out",
			`chains[0].rules[2].match.oif: "a/b" is not the name of an interface, expected one such as eth0, or with a star at its end eth*`,
			`chains[0].rules[3].match.saddr: there is no set "none" in this table`,
			`chains[0].rules[3].match.daddr: set "services" is of type inet_service, expected ipv4_addr or ipv6_addr`,
			"chains[0].rules[4].match.dport: it needs a match.proto that has ports, as tcp or udp",
			`chains[0].rules[5].match.sport: set "hosts" is of type ipv4_addr, expected inet_service`,
			`chains[0].rules[5].match.dport: there is no set "none" in this table`,
			`chains[0].rules[6].match.ctstate[1]: "old" is unknown, expected one of established, invalid, new, related, untracked`,
			"chains[0].rules[7].match.daddr: @hosts6 is of family ip6, but match.saddr is of family ip",
			"chains[0].rules[8].dnat: it has a port, so match.proto must be a protocol with ports, as tcp or udp",
			"chains[0].rules[9].dnat: 2001:db8::1 is of family ip6, but match.saddr is of family ip",
		}},
		{Table{Name: "t", Family: IP6, Chains: input(Rule{Match: Match{Saddr: addresses("192.0.2.1")}, Drop: true})}, []string{
			"chains[0].rules[0].match.saddr: 192.0.2.1 is of family ip, but the table is of family ip6",
		}},
		{Table{Name: "t", Family: Inet, Chains: []Chain{
			{Name: "a", Rules: []Rule{{Accept: true}, {Jump: "b"}}}, {Name: "b", Rules: []Rule{{Jump: "a"}}}, {Name: "c", Rules: []Rule{{Jump: "c"}}},
		}}, []string{`chains[1].rules[0].jump: chain "a" leads back to this one`, `chains[2].rules[0].jump: chain "c" leads back to this one`}},
		{Table{Name: "t", Family: Inet, Chains: input(Rule{Masquerade: true})}, []string{
			`chains[0].rules[0].masquerade: packets come here from chain "input" with hook input, where that cannot be done`,
		}},
		{Table{Name: "t", Family: Inet, Chains: []Chain{
			{Name: "post", Hook: "postrouting", Priority: PriorityOf(0), Type: "filter", Rules: []Rule{{Jump: "more"}}},
			{Name: "more", Rules: []Rule{{Snat: translationTo("192.0.2.1")}, {Reject: true}}},
			{Name: "fwd", Hook: "forward", Priority: PriorityOf(0), Type: "nat"},
			{Name: "pre", Hook: "prerouting", Priority: PriorityOf(-300), Rules: []Rule{{Dnat: translationTo("192.0.2.1")}}},
		}}, []string{
			`chains[1].rules[0].snat: packets come here from chain "post" of type filter, expected type nat`,
			`chains[1].rules[1].reject: packets come here from chain "post" with hook postrouting, where that cannot be done`,
			"chains[2].hook: a chain of type nat cannot have hook forward",
			"chains[3].priority: raw is before connections are known, expected more than -200 of a chain of type nat",
		}},
	} {
		_, err := c.row.Normalized()
		if diff := cmp.Diff(c.want, fieldErrors(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.row.Key(), diff)
		}
	}
}

// A list that came out empty must not become a rule for all packets.
func TestWhatMatchesInVainIsRefused(t *testing.T) {
	for want, match := range map[string]Match{
		"chains[0].rules[0].match.ctstate: it is empty: expected one state or more, or the field left out for packets in any state":         {CtState: []string{}},
		`chains[0].rules[0].match.iif: "eth0:1" is not the name of an interface, expected one such as eth0, or with a star at its end eth*`: {Iif: "eth0:1"},
	} {
		row := Table{Name: "t", Family: Inet, Chains: []Chain{{Name: "c", Rules: []Rule{{Match: match, Accept: true}}}}}
		_, err := row.Normalized()
		if got := fieldErrors(err); len(got) != 1 || got[0] != want {
			t.Errorf("%+v: %q, expected %q", match, got, want)
		}
	}
}

func TestRightRowsAreLeftAsTheyAre(t *testing.T) {
	for name, row := range samples() {
		normalized, err := row.Normalized()
		if err != nil || !normalized.Equal(row) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// nested returns a row with a chain of jumps.
func nested(jumps int) Table {
	row := Table{Name: "nested", Family: Inet, Chains: []Chain{{Name: "c0", Hook: "input", Priority: PriorityOf(0)}}}
	for i := range jumps {
		row.Chains[i].Rules = []Rule{{Jump: fmt.Sprintf("c%d", i+1)}}
		row.Chains = append(row.Chains, Chain{Name: fmt.Sprintf("c%d", i+1)})
	}
	return row
}

func TestJumpsAreAsDeepAsTheKernelAllows(t *testing.T) {
	clean(t)
	target := newTarget(t)
	mustUpdate(t, target, nested(maxJumps), true)
	mustDelete(t, target, nested(maxJumps))
	deeper := nested(maxJumps + 1)
	_, err := target.Update(t.Context(), txn(), deeper)
	if err == nil || !strings.Contains(err.Error(), `chains[0].rules[0].jump": 16 jumps follow each other, expected at most 15`) {
		t.Errorf("%v", err)
	}
	requests, err := deeper.digested().creation()
	if err != nil {
		t.Fatal(err)
	}
	if outcomes := target.transact(t.Context(), []task{{0, deeper.Key(), requests}}); outcomes[0] == nil {
		t.Error("the kernel allows more")
	}
}

func TestRowsSurviveJSON(t *testing.T) {
	for name, row := range samples() {
		data, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		var back Table
		if err := json.Unmarshal(data, &back); err != nil || back.digested().digest != row.digested().digest || !back.Equal(row) {
			t.Errorf("%s: %v\n%s", name, err, data)
		}
	}
}

// TestRowsOfTheTable checks what the table makes of rows: they have a digest of what they
// say, and writing one again changes nothing.
func TestRowsOfTheTable(t *testing.T) {
	db := statedb.New()
	table, err := statedb.NewTable(db, Schema())
	if err != nil {
		t.Fatal(err)
	}
	insert := func(row Table) statedb.Revision {
		t.Helper()
		if err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, row)
			return err
		}, table); err != nil {
			t.Fatal(err)
		}
		stored, revision, found := table.Get(db.ReadTxn(), ByKey.Query(row.Key()))
		if !found || stored.digest != row.digested().digest {
			t.Errorf("stored: %v, digest %s", found, stored.digest)
		}
		return revision
	}
	row := guarded()
	first := insert(row)
	if again := insert(guarded()); again != first {
		t.Error("writing the same row again is a change")
	}
	stored, _, _ := table.Get(db.ReadTxn(), ByKey.Query(row.Key()))
	stored.Chains = stored.Chains[1:] // with the digest of what it was before
	stored.Chains[0].Rules = nil
	if changed := insert(stored); changed == first {
		t.Error("writing another row is no change")
	}
}

func TestKeysAreText(t *testing.T) {
	for text, want := range map[string]Key{"inet filter": {Inet, "filter"}, "filter": {Inet, "filter"}, "ip6 a-b": {IP6, "a-b"}} {
		var key Key
		if err := key.UnmarshalText([]byte(text)); err != nil || key != want {
			t.Errorf("%q: %v, %v", text, key, err)
		}
	}
	for _, text := range []string{"", "arp filter", "inet a b", "inet 1"} {
		if err := new(Key).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestElementsBecomeRanges(t *testing.T) {
	for _, c := range []struct {
		set    Set
		want   string
		ranges bool
	}{
		{Set{Type: InetService, Elements: []Element{"3", "1", "3"}}, "0001-0001 0003-0003", false},
		{Set{Type: InetService, Elements: []Element{"5-9", "1-3", "4", "8-20"}}, "0001-0014", true},
		{Set{Type: InetService, Elements: []Element{"65535", "1-2"}}, "0001-0002 ffff-ffff", true},
		{Set{Type: InetService, Elements: []Element{"0-65535", "7"}}, "0000-ffff", true},
		{Set{Type: IPv4Addr, Elements: []Element{"10.0.0.0/9", "10.128.0.0/9", "10.1.0.0/16", "192.0.2.1"}}, "0a000000-0affffff c0000201-c0000201", true},
	} {
		spans, ranges, err := c.set.spans()
		var texts []string
		for _, s := range spans {
			texts = append(texts, fmt.Sprintf("%x-%x", s.first, s.last))
		}
		if got := strings.Join(texts, " "); err != nil || got != c.want || ranges != c.ranges {
			t.Errorf("%v: %s, %v, %v, expected %s, %v", c.set.Elements, got, ranges, err, c.want, c.ranges)
		}
	}
}

// BenchmarkManyBaseChains checks a table whose base chains all jump to one chain: the time for each rule does not depend on their number.
func BenchmarkManyBaseChains(b *testing.B) {
	for _, n := range []int{500, 2000, 8000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table := Table{Family: Inet, Name: "many", Chains: []Chain{{Name: "all", Rules: make([]Rule, n)}}}
			for i := range n {
				table.Chains[0].Rules[i] = Rule{Accept: true}
				table.Chains = append(table.Chains, Chain{Name: fmt.Sprint("c", i), Hook: "input", Priority: PriorityOf(0), Rules: []Rule{{Jump: "all"}}})
			}
			for b.Loop() {
				if _, err := table.Normalized(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/rule")
		})
	}
}
