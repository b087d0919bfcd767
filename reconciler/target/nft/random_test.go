package nft

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// randomTable returns a table that is likely to be right, with values at their ends.
func randomTable(r *rand.Rand) Table {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	row := Table{Name: "t" + strings.Repeat("x", r.IntN(2)*(maxName-1)), Family: Family(pick("inet", "ip", "ip6"))}
	families := []string{IPv4Addr, IPv6Addr}
	switch row.Family {
	case IP:
		families = families[:1]
	case IP6:
		families = families[1:]
	}
	for i := range r.IntN(4) {
		set := Set{Name: fmt.Sprint("s", i, strings.Repeat("y", r.IntN(2)*(maxName-2))), Type: pick(append(families, InetService)...)}
		for range r.IntN(12) {
			set.Elements = append(set.Elements, Element(randomElement(r, set.Type)))
		}
		row.Sets = append(row.Sets, set)
	}
	for i := range r.IntN(6) {
		chain := Chain{Name: fmt.Sprint("c", i, strings.Repeat("z", r.IntN(2)*(maxName-2)))}
		if i < 3 {
			chain.Hook = pick("prerouting", "input", "forward", "output", "postrouting")
			chain.Priority = text[Priority](pick("raw", "mangle", "dstnat", "filter", "security", "srcnat", "2147483647", "-2147483648", "-201", "-199"))
			chain.Policy, chain.Type = pick("", accept, drop), pick("", "", "", typeFilter, typeNAT, typeRoute)
		}
		row.Chains = append(row.Chains, chain)
	}
	for i := range row.Chains {
		for range r.IntN(5) {
			row.Chains[i].Rules = append(row.Chains[i].Rules, randomRule(r, row, i, families))
		}
	}
	return row
}

func randomElement(r *rand.Rand, kind string) string {
	switch kind {
	case InetService:
		first, last := uint16(r.IntN(40)), uint16(r.IntN(40))
		if r.IntN(2) == 0 {
			first, last = -first, -last
		}
		if r.IntN(2) == 0 {
			return fmt.Sprint(first)
		}
		return fmt.Sprint(min(first, last), "-", max(first, last))
	case IPv4Addr:
		return randomAddresses(r, 4)
	}
	return randomAddresses(r, 16)
}

func randomAddresses(r *rand.Rand, bytes int) string {
	addr := func() netip.Addr {
		b := make([]byte, bytes)
		if r.IntN(2) == 0 {
			for i := range b {
				b[i] = 255
			}
		}
		b[bytes-1] ^= byte(r.IntN(32))
		b[0] ^= byte(r.IntN(2))
		a, _ := netip.AddrFromSlice(b)
		return a
	}
	a, b := addr(), addr()
	switch r.IntN(3) {
	case 0:
		return a.String()
	case 1:
		p, _ := a.Prefix(r.IntN(bytes*8 + 1))
		return p.String()
	}
	if b.Less(a) {
		a, b = b, a
	}
	return a.String() + "-" + b.String()
}

func randomRule(r *rand.Rand, row Table, in int, families []string) Rule {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	family := pick(families...)
	bytes := map[string]int{IPv4Addr: 4, IPv6Addr: 16}[family]
	chance := func() bool { return r.IntN(4) == 0 }
	rule := Rule{Counter: chance()}
	m := &rule.Match
	if chance() {
		m.Iif = pick("lo", "eth*", "a23456789012345", "a23456789012345*")
	}
	if chance() {
		m.Oif = pick("lo", "e*")
	}
	matching := func() Addresses {
		for _, s := range row.Sets {
			if s.Type == family && r.IntN(2) == 0 {
				return addresses("@" + s.Name)
			}
		}
		a := "-"
		for strings.Contains(a, "-") {
			a = randomAddresses(r, bytes)
		}
		return addresses(a)
	}
	if chance() {
		m.Saddr = matching()
	}
	if chance() {
		m.Daddr = matching()
	}
	if r.IntN(2) == 0 {
		m.Proto = text[Protocol](pick("tcp", "udp", "icmp", "icmpv6", "255", "1", "132", "33", "136"))
	}
	if m.Proto.hasPorts() {
		for _, p := range []*Ports{&m.Sport, &m.Dport} {
			i := slices.IndexFunc(row.Sets, func(s Set) bool { return s.Type == InetService })
			switch {
			case chance() && i >= 0:
				*p = ports("@" + row.Sets[i].Name)
			case chance():
				*p = ports(pick("0", "65535", "0-65535", "0-1", "65534-65535", "1-2"))
			}
		}
	}
	if chance() {
		m.CtState = []string{"new", "established", "related", "invalid", "untracked"}[r.IntN(5):]
	}
	if chance() {
		m.Mark = text[Mark](pick("0", "0xffffffff", "0/1", "0x10/0x10", "1/0xffffffff", "0x80000000/0x80000000"))
	}
	to := map[string]string{IPv4Addr: "192.0.2.1", IPv6Addr: "2001:db8::1"}[family]
	if m.Proto.hasPorts() && chance() {
		to = pick(netip.AddrPortFrom(netip.MustParseAddr(to), 1).String(), netip.AddrPortFrom(netip.MustParseAddr(to), 65535).String())
	}
	switch r.IntN(9) {
	case 0:
		rule.Masquerade = true
	case 1:
		rule.Snat = translationTo(to)
	case 2:
		rule.Dnat = translationTo(to)
	case 3, 4:
		rule.Reject = true
	case 5:
		if next := max(in+1, 3); next < len(row.Chains) {
			rule.Jump = row.Chains[next].Name
			break
		}
		rule.Drop = true
	case 6:
		rule.Drop = true
	default:
		rule.Accept = true
	}
	return rule
}

// TestWhatIsRightTheKernelTakes makes tables of all kinds of values: those that a row may have
// the kernel takes, and tells them as they were asked for.
func TestWhatIsRightTheKernelTakes(t *testing.T) {
	clean(t)
	target := newTarget(t)
	made := 0
	for seed := uint64(1); made < 500; seed++ {
		row := randomTable(rand.New(rand.NewPCG(seed, 0)))
		row, err := row.Normalized()
		if err != nil {
			continue
		}
		made++
		if result, err := target.Update(t.Context(), txn(), row); err != nil || !result.Changed {
			t.Fatalf("seed %d: Update = %+v, %v", seed, result, err)
		}
		if changes, err := target.Diff(t.Context(), txn(), row); err != nil || len(changes) > 0 {
			t.Fatalf("seed %d: Diff = %+v, %v", seed, changes, err)
		}
		mustDelete(t, target, row)
	}
}
