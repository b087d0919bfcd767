package nft

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/steps"
)

// details reads a table and returns all its differences from a row. due has the differences
// that are known already.
func (l *looker) details(row Table, due []steps.Step) ([]reconciler.Change, error) {
	is := newContent()
	h, found, err := l.table(row.Key())
	if err == nil && found {
		is, err = l.content(h)
	}
	if errors.Is(err, syscall.ENOENT) { // it has been removed meanwhile
		is, found, err = newContent(), false, nil
	}
	if err != nil {
		return nil, err
	}
	requests, err := row.requests()
	if err != nil {
		return nil, err
	}
	switch {
	case !found:
		due = append(steps.Field("name", "", row.Name, nil), steps.Field("family", "", string(row.Family), nil)...)
	case h.ours():
		due = nil // the content shows the differences
	}
	return steps.Changes(append(due, differences(is, contentOf(requests), row)...)), nil
}

// differences returns the differences between existing and desired content.
func differences(is, want *content, row Table) []steps.Step {
	due := steps.Field("flags", is.flags, want.flags, nil)
	due = append(due, steps.Field("other objects", is.others, want.others, nil)...)
	for _, name := range namesOf(is.chains, want.chains) {
		due = append(due, chainDifferences(name, is.chains[name], want.chains[name], row)...)
	}
	for _, name := range namesOf(is.sets, want.sets) {
		due = append(due, setDifferences(name, is.sets[name], want.sets[name])...)
	}
	return due
}

// namesOf returns the sorted names of two maps.
func namesOf[T any](a, b map[string]T) []string {
	names := maps.Clone(a)
	maps.Copy(names, b)
	return slices.Sorted(maps.Keys(names))
}

func chainDifferences(name string, is, want *chainContent, row Table) []steps.Step {
	field := "chains[" + name + "]"
	describe := func(c *chainContent) string {
		if c == nil {
			return ""
		}
		return fmt.Sprintf("%s, rules: %d", strings.TrimSpace(c.text()), len(c.rules))
	}
	if is == nil || want == nil {
		return steps.Field(field, describe(is), describe(want), nil)
	}
	due := steps.Field(field, strings.TrimSpace(is.text()), strings.TrimSpace(want.text()), nil)
	i := slices.IndexFunc(row.Chains, func(c Chain) bool { return c.Name == name })
	return append(due, ruleDifferences(field, is.rules, want.rules, row.Chains[i].Rules)...)
}

// toldRules is the maximum number of rules of a chain that are reported one by one.
const toldRules = 10

// ruleDifferences compares rules in their order. It skips equal rules at the beginning and at
// the end.
func ruleDifferences(field string, is, want []string, rules []Rule) []steps.Step {
	first := 0
	for first < min(len(is), len(want)) && is[first] == want[first] {
		first++
	}
	last := 0
	for last < min(len(is), len(want))-first && is[len(is)-1-last] == want[len(want)-1-last] {
		last++
	}
	is, want = is[first:len(is)-last], want[first:len(want)-last]
	if max(len(is), len(want)) > toldRules {
		return steps.Field(fmt.Sprintf("%s.rules[%d] and after", field, first),
			fmt.Sprintf("%d other rules", len(is)), fmt.Sprintf("%d rules", len(want)), nil)
	}
	var due []steps.Step
	for i := range max(len(is), len(want)) {
		there, wanted := "", ""
		if i < len(is) {
			there = "another rule"
		}
		if i < len(want) {
			wanted = rules[first+i].String()
		}
		if i < len(is) && i < len(want) && is[i] == want[i] {
			continue
		}
		due = append(due, steps.Field(fmt.Sprintf("%s.rules[%d]", field, first+i), there, wanted, nil)...)
	}
	return due
}

func setDifferences(name string, is, want *setContent) []steps.Step {
	field := "sets[" + name + "]"
	describe := func(s *setContent) string {
		if s == nil {
			return ""
		}
		return fmt.Sprintf("%s, elements: %d", strings.TrimSpace(s.text()), len(s.elements))
	}
	if is == nil || want == nil {
		return steps.Field(field, describe(is), describe(want), nil)
	}
	due := steps.Field(field, strings.TrimSpace(is.text()), strings.TrimSpace(want.text()), nil)
	extra, missing := compare(is.elements, want.elements)
	if extra+missing > 0 {
		due = append(due, steps.Field(field+".elements",
			fmt.Sprintf("%d, not wanted: %d", len(is.elements), extra),
			fmt.Sprintf("%d, missing: %d", len(want.elements), missing), nil)...)
	}
	return due
}

// compare counts the items that only one of two lists has.
func compare(is, want []string) (extra, missing int) {
	there := make(map[string]bool, len(is))
	for _, element := range is {
		there[element] = true
	}
	for _, element := range want {
		if !there[element] {
			missing++
		}
	}
	return len(is) - (len(want) - missing), missing
}

// String returns the rule in the syntax of nft(8).
func (r Rule) String() string {
	var words []string
	add := func(what, value string) {
		if value != "" {
			words = append(words, what, value)
		}
	}
	m := r.Match
	add("iifname", m.Iif)
	add("oifname", m.Oif)
	add("saddr", m.Saddr.String())
	add("daddr", m.Daddr.String())
	proto := ""
	if m.Proto != 0 {
		proto = m.Proto.String()
	}
	add("proto", proto)
	add("sport", m.Sport.String())
	add("dport", m.Dport.String())
	add("ct state", strings.Join(m.CtState, ","))
	add("mark", m.Mark.String())
	if r.Counter {
		words = append(words, "counter")
	}
	switch verdicts := r.verdicts(); {
	case r.Jump != "":
		add("jump", r.Jump)
	case r.Snat.Addr.IsValid():
		add("snat to", r.Snat.String())
	case r.Dnat.Addr.IsValid():
		add("dnat to", r.Dnat.String())
	default:
		words = append(words, verdicts...)
	}
	return strings.Join(words, " ")
}
