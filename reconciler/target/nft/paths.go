package nft

import (
	"fmt"
	"net/netip"
	"slices"
)

// addressesOf returns the new address of a translation.
func addressesOf(t Translation) Addresses {
	if !t.Addr.IsValid() {
		return Addresses{}
	}
	return Addresses{Prefix: netip.PrefixFrom(t.Addr, t.Addr.BitLen())}
}

// familyOfAddresses returns the family of addresses, or an empty one if none are given or if
// the table does not have the set.
func (t Table) familyOfAddresses(a Addresses) (family Family, known bool) {
	if a.Set == "" {
		switch addr := a.Prefix.Addr(); {
		case !addr.IsValid():
			return "", true
		case addr.Is4():
			return IP, true
		}
		return IP6, true
	}
	i := slices.IndexFunc(t.Sets, func(s Set) bool { return s.Name == a.Set })
	if i < 0 {
		return "", false
	}
	switch t.Sets[i].Type {
	case IPv4Addr:
		return IP, true
	case IPv6Addr:
		return IP6, true
	}
	return "", false
}

// familyOf returns the family of a rule's addresses, or an empty one if it has none.
func (t Table) familyOf(r Rule) Family {
	for _, a := range []Addresses{r.Match.Saddr, r.Match.Daddr, addressesOf(r.Snat), addressesOf(r.Dnat)} {
		if family, _ := t.familyOfAddresses(a); family != "" {
			return family
		}
	}
	return ""
}

// maxJumps is the kernel's maximum depth of nested jumps.
const maxJumps = 15

// translating returns the names of the chains from which packets can reach a rule that translates addresses.
func (t Table) translating() map[string]bool {
	found, from, waiting := map[string]bool{}, map[string][]string{}, []string(nil)
	for _, c := range t.Chains {
		for _, r := range c.Rules {
			if r.Jump != "" {
				from[r.Jump] = append(from[r.Jump], c.Name)
			}
			if r.translates() && !found[c.Name] {
				found[c.Name], waiting = true, append(waiting, c.Name)
			}
		}
	}
	for len(waiting) > 0 {
		to := waiting[0]
		waiting = waiting[1:]
		for _, chain := range from[to] {
			if !found[chain] {
				found[chain], waiting = true, append(waiting, chain)
			}
		}
	}
	return found
}

// typeOf returns the type of a base chain. If the row does not set it, the rules determine it: see translating.
func typeOf(chain Chain, translating map[string]bool) string {
	switch {
	case chain.Type != "":
		return chain.Type
	case translating[chain.Name]:
		return typeNAT
	}
	return typeFilter
}

func (r Rule) translates() bool {
	return r.Masquerade || r.Snat.Addr.IsValid() || r.Dnat.Addr.IsValid()
}

// verdictHooks are the hooks in which the kernel allows each verdict.
var verdictHooks = map[string][]string{
	"reject":     {"prerouting", "input", "forward", "output"},
	"masquerade": {"postrouting"},
	"snat":       {"postrouting", "input"},
	"dnat":       {"prerouting", "output"},
}

// typeHooks are the hooks in which the kernel allows chains of a type.
var typeHooks = map[string][]string{
	typeFilter: {"prerouting", "input", "forward", "output", "postrouting"},
	typeNAT:    {"prerouting", "input", "output", "postrouting"},
	typeRoute:  {"output"},
}

// conntrackPriority is the priority of the connection lookup. Addresses are translated later.
const conntrackPriority = -200

// way is how packets come to a rule: all base chains with the same hook and type are alike.
type way struct{ hook, kind string }

// paths checks where packets can come from and go to.
func (c *checker) paths() {
	if !c.jumps() {
		return
	}
	translating := c.table.translating()
	seen := map[way]map[int]bool{} // places of chains
	for i, chain := range c.table.Chains {
		if chain.Hook == "" {
			continue
		}
		at := fmt.Sprintf("chains[%d]", i)
		w := way{chain.Hook, typeOf(chain, translating)}
		if !slices.Contains(typeHooks[w.kind], w.hook) {
			c.wrong(at+".hook", "a chain of type %s cannot have hook %s", w.kind, w.hook)
			continue
		}
		if w.kind == typeNAT && chain.Priority.value <= conntrackPriority {
			c.wrong(at+".priority", "%s is before connections are known, expected more than %d of a chain of type %s", chain.Priority, conntrackPriority, w.kind)
		}
		if seen[w] == nil {
			seen[w] = map[int]bool{}
		}
		c.walk(i, seen[w], func(in, j int) { c.reached(in, j, chain.Name, w) })
	}
}

// reached checks a rule that packets can reach from a base chain.
func (c *checker) reached(in, at int, base string, w way) {
	r := c.table.Chains[in].Rules[at]
	verdict := r.verdicts()[0]
	field := func() string { return fmt.Sprintf("chains[%d].rules[%d].%s", in, at, verdict) }
	allowed, limited := verdictHooks[verdict]
	switch {
	case limited && !slices.Contains(allowed, w.hook):
		c.wrong(field(), "packets come here from chain %q with hook %s, where that cannot be done", base, w.hook)
	case r.translates() && w.kind != typeNAT:
		c.wrong(field(), "packets come here from chain %q of type %s, expected type %s", base, w.kind, typeNAT)
	}
}

// walk calls visit with each rule that packets can reach from a chain: the places of the rule's chain, unless that has been seen, and of the rule.
func (c *checker) walk(from int, seen map[int]bool, visit func(in, at int)) {
	for waiting := []int{from}; len(waiting) > 0; {
		in := waiting[0]
		waiting = waiting[1:]
		if seen[in] {
			continue
		}
		seen[in] = true
		for at, r := range c.table.Chains[in].Rules {
			visit(in, at)
			if r.Jump != "" {
				waiting = append(waiting, c.chains[r.Jump])
			}
		}
	}
}

// jumps checks that jumps contain no cycle and are not nested too deeply.
func (c *checker) jumps() bool {
	depth := make([]int, len(c.table.Chains)) // of the jumps that follow
	state := make([]int, len(c.table.Chains))
	const visiting, visited = 1, 2
	fine := true
	var visit func(i int)
	visit = func(i int) {
		state[i] = visiting
		for j, r := range c.table.Chains[i].Rules {
			if r.Jump == "" {
				continue
			}
			to := c.chains[r.Jump]
			if state[to] == 0 {
				visit(to)
			}
			at := fmt.Sprintf("chains[%d].rules[%d].jump", i, j)
			switch {
			case state[to] == visiting:
				c.wrong(at, "chain %q leads back to this one", r.Jump)
				fine = false
			case depth[to]+1 > maxJumps && depth[to] <= maxJumps:
				c.wrong(at, "%d jumps follow each other, expected at most %d", depth[to]+1, maxJumps)
				fine = false
			}
			depth[i] = max(depth[i], depth[to]+1)
		}
		state[i] = visited
	}
	for i := range c.table.Chains {
		if state[i] == 0 {
			visit(i)
		}
	}
	return fine
}
