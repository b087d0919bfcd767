package nft

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
)

// drop and accept are the policies of base chains.
const (
	accept = "accept"
	drop   = "drop"
)

// The types of base chains.
const (
	typeFilter = "filter"
	typeNAT    = "nat"
	typeRoute  = "route"
)

// checker collects the errors of a row.
type checker struct {
	table  Table
	sets   map[string]Set
	chains map[string]int // their places
	errs   []error
}

// Normalized checks the row and returns it. It returns all errors joined. Each is of type
// *reconciler.FieldError, with the path of a field, as in chains[2].rules[5].match.dport.
func (t Table) Normalized() (Table, error) {
	c := &checker{table: t, sets: map[string]Set{}, chains: map[string]int{}}
	c.check("name", checkName(t.Name))
	c.check("family", t.Family.check())
	for i, set := range t.Sets {
		c.set(fmt.Sprintf("sets[%d]", i), set)
	}
	for i, chain := range t.Chains {
		c.chain(i, chain)
	}
	for i, chain := range t.Chains {
		for j, rule := range chain.Rules {
			c.rule(fmt.Sprintf("chains[%d].rules[%d]", i, j), rule)
		}
	}
	if len(c.errs) == 0 { // what follows relies on the names
		c.paths()
	}
	return t, errors.Join(c.errs...)
}

func (c *checker) check(field string, err error) {
	if err != nil {
		c.errs = append(c.errs, &reconciler.FieldError{Field: field, Err: err})
	}
}

func (c *checker) wrong(field, format string, args ...any) {
	c.check(field, fmt.Errorf(format, args...))
}

func (c *checker) set(at string, set Set) {
	if err := checkName(set.Name); err != nil {
		c.check(at+".name", err)
	} else if _, again := c.sets[set.Name]; again {
		c.wrong(at+".name", "there are two sets %q", set.Name)
	}
	c.sets[set.Name] = set
	if _, known := setTypes[set.Type]; !known {
		c.wrong(at+".type", "%s, expected %s, %s or %s", missingOr(set.Type), IPv4Addr, IPv6Addr, InetService)
		return
	}
	var wrong *elementError
	if _, _, err := set.spans(); errors.As(err, &wrong) {
		c.check(fmt.Sprintf("%s.elements[%d]", at, wrong.at), wrong.err)
	}
}

// missingOr returns the first part of the error about a word that is not an expected one.
func missingOr(word string) string {
	if word == "" {
		return "it is missing"
	}
	return fmt.Sprintf("%q is unknown", word)
}

func (c *checker) chain(i int, chain Chain) {
	at := fmt.Sprintf("chains[%d]", i)
	if err := checkName(chain.Name); err != nil {
		c.check(at+".name", err)
	} else if _, again := c.chains[chain.Name]; again {
		c.wrong(at+".name", "there are two chains %q", chain.Name)
	}
	c.chains[chain.Name] = i
	if chain.Hook == "" {
		for _, field := range []struct {
			name  string
			given bool
		}{{"priority", chain.Priority.given}, {"policy", chain.Policy != ""}, {"type", chain.Type != ""}} {
			if field.given {
				c.wrong(at+"."+field.name, "it is given, but only chains with a hook have one")
			}
		}
		return
	}
	if _, known := hooks[chain.Hook]; !known {
		c.wrong(at+".hook", "%q is unknown, expected prerouting, input, forward, output or postrouting", chain.Hook)
	}
	if !chain.Priority.given {
		c.wrong(at+".priority", "it is missing, expected a number or one of raw, mangle, dstnat, filter, security, srcnat")
	}
	if chain.Policy != "" && chain.Policy != accept && chain.Policy != drop {
		c.wrong(at+".policy", "%q is unknown, expected %s or %s", chain.Policy, accept, drop)
	}
	if !slices.Contains([]string{"", typeFilter, typeNAT, typeRoute}, chain.Type) {
		c.wrong(at+".type", "%q is unknown, expected %s, %s or %s", chain.Type, typeFilter, typeNAT, typeRoute)
	}
}

func (c *checker) rule(at string, r Rule) {
	given := r.verdicts()
	if len(given) != 1 {
		c.wrong(at, "%s, expected exactly one of accept, drop, reject, jump, masquerade, snat, dnat", several(given))
	}
	if target, known := c.chains[r.Jump]; r.Jump != "" && !known {
		c.wrong(at+".jump", "there is no chain %q in this table", r.Jump)
	} else if known && r.Jump != "" && c.table.Chains[target].Hook != "" {
		c.wrong(at+".jump", "chain %q has a hook, expected one without", r.Jump)
	}
	c.match(at+".match", r.Match)
	c.family(at, r)
	c.translation(at+".snat", r.Snat, r.Match.Proto)
	c.translation(at+".dnat", r.Dnat, r.Match.Proto)
}

func (c *checker) translation(at string, to Translation, proto Protocol) {
	if to.Port != 0 && !proto.hasPorts() {
		c.wrong(at, "it has a port, so match.proto must be a protocol with ports, as tcp or udp")
	}
}

func several(given []string) string {
	if len(given) == 0 {
		return "nothing says what becomes of the packet"
	}
	return strings.Join(given, " and ") + " are given"
}

// verdicts returns the given fields among those that decide what happens to a packet.
func (r Rule) verdicts() (given []string) {
	for _, field := range []struct {
		name  string
		given bool
	}{
		{"accept", r.Accept},
		{"drop", r.Drop},
		{"reject", r.Reject},
		{"jump", r.Jump != ""},
		{"masquerade", r.Masquerade},
		{"snat", r.Snat.Addr.IsValid()},
		{"dnat", r.Dnat.Addr.IsValid()},
	} {
		if field.given {
			given = append(given, field.name)
		}
	}
	return given
}

func (c *checker) match(at string, m Match) {
	c.check(at+".iif", checkInterface(m.Iif))
	c.check(at+".oif", checkInterface(m.Oif))
	c.addresses(at+".saddr", m.Saddr)
	c.addresses(at+".daddr", m.Daddr)
	c.ports(at+".sport", m.Proto, m.Sport)
	c.ports(at+".dport", m.Proto, m.Dport)
	if m.CtState != nil && len(m.CtState) == 0 {
		c.wrong(at+".ctstate", "it is empty: expected one state or more, or the field left out for packets in any state")
	}
	for i, state := range m.CtState {
		if _, known := states[state]; !known {
			c.wrong(fmt.Sprintf("%s.ctstate[%d]", at, i), "%q is unknown, expected one of %s", state, strings.Join(slices.Sorted(maps.Keys(states)), ", "))
		}
	}
}

func checkInterface(name string) error {
	start, _ := strings.CutSuffix(name, "*")
	switch {
	case name == "":
		return nil
	case start == "":
		return errors.New("a star alone is any interface: leave the field out")
	case len(start) >= unix.IFNAMSIZ:
		return fmt.Errorf("%q is longer than names of interfaces, which have at most %d bytes", name, unix.IFNAMSIZ-1)
	case strings.ContainsAny(start, "/: \t\n\x00*"):
		return fmt.Errorf("%q is not the name of an interface, expected one such as eth0, or with a star at its end eth*", name)
	}
	return nil
}

func (c *checker) addresses(at string, a Addresses) {
	switch set, known := c.sets[a.Set]; {
	case a.Set == "":
	case !known:
		c.wrong(at, "there is no set %q in this table", a.Set)
	case set.Type == InetService:
		c.wrong(at, "set %q is of type %s, expected %s or %s", a.Set, set.Type, IPv4Addr, IPv6Addr)
	}
}

func (c *checker) ports(at string, proto Protocol, p Ports) {
	set, known := c.sets[p.Set]
	switch {
	case p.Set == "" && !p.given:
	case !proto.hasPorts():
		c.wrong(at, "it needs a match.proto that has ports, as tcp or udp")
	case p.Set == "":
	case !known:
		c.wrong(at, "there is no set %q in this table", p.Set)
	case set.Type != InetService:
		c.wrong(at, "set %q is of type %s, expected %s", p.Set, set.Type, InetService)
	}
}

// family checks that all addresses of a rule are of one family, which the table supports.
func (c *checker) family(at string, r Rule) {
	agreed, by := Family(""), ""
	if c.table.Family != Inet {
		agreed, by = c.table.Family, "the table"
	}
	for _, field := range []struct {
		name      string
		addresses Addresses
	}{
		{"match.saddr", r.Match.Saddr},
		{"match.daddr", r.Match.Daddr},
		{"snat", addressesOf(r.Snat)},
		{"dnat", addressesOf(r.Dnat)},
	} {
		family, known := c.table.familyOfAddresses(field.addresses)
		switch {
		case !known || family == "":
		case agreed == "":
			agreed, by = family, field.name
		case family != agreed:
			c.wrong(at+"."+field.name, "%s is of family %s, but %s is of family %s", field.addresses, family, by, agreed)
		}
	}
}
