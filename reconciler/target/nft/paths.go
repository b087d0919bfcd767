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

// walk calls visit with each rule that packets in a chain can reach, and the rule's place in
// its chain. Each chain is visited once.
func (t Table) walk(chain string, visit func(in Chain, at int, r Rule)) {
	byName := make(map[string]Chain, len(t.Chains))
	for _, c := range t.Chains {
		byName[c.Name] = c
	}
	seen := map[string]bool{chain: true}
	for waiting := []string{chain}; len(waiting) > 0; {
		c := byName[waiting[0]]
		waiting = waiting[1:]
		for i, r := range c.Rules {
			visit(c, i, r)
			if r.Jump != "" && !seen[r.Jump] {
				seen[r.Jump] = true
				waiting = append(waiting, r.Jump)
			}
		}
	}
}

// typeOf returns the type of a base chain. If the row does not set it, the rules determine it.
func (t Table) typeOf(chain Chain) string {
	kind := typeFilter
	if chain.Type != "" {
		return chain.Type
	}
	t.walk(chain.Name, func(_ Chain, _ int, r Rule) {
		if r.translates() {
			kind = typeNAT
		}
	})
	return kind
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

// paths checks where packets can come from and go to.
func (c *checker) paths() {
	if !c.jumps() {
		return
	}
	for i, chain := range c.table.Chains {
		if chain.Hook == "" {
			continue
		}
		at := fmt.Sprintf("chains[%d]", i)
		kind := c.table.typeOf(chain)
		if !slices.Contains(typeHooks[kind], chain.Hook) {
			c.wrong(at+".hook", "a chain of type %s cannot have hook %s", kind, chain.Hook)
			continue
		}
		if kind == typeNAT && chain.Priority.value <= conntrackPriority {
			c.wrong(at+".priority", "%s is before connections are known, expected more than %d of a chain of type %s", chain.Priority, conntrackPriority, kind)
		}
		c.table.walk(chain.Name, func(in Chain, j int, r Rule) {
			verdicts := r.verdicts()
			field := fmt.Sprintf("chains[%d].rules[%d].%s", c.chains[in.Name], j, verdicts[0])
			allowed, limited := verdictHooks[verdicts[0]]
			switch {
			case limited && !slices.Contains(allowed, chain.Hook):
				c.wrong(field, "packets come here from chain %q with hook %s, where that cannot be done", chain.Name, chain.Hook)
			case r.translates() && kind != typeNAT:
				c.wrong(field, "packets come here from chain %q of type %s, expected type %s", chain.Name, kind, typeNAT)
			}
		})
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
