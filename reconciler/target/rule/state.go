package rule

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/target/steps"
)

// comparison is the result of comparing a row with the existing rules.
type comparison struct {
	// old are the rules that the row's rule replaces, in their order.
	old []Seen
	// others are rules of others, which are left alone.
	others []Seen
	steps  []steps.Step // how old differs from the row
}

// compare compares a row, which must be normalized, with the rules that have its key.
func (r Rule) compare(there []Seen) (c comparison) {
	for _, s := range there {
		if s.Protocol == rtnl.Ours || r.Adopt && !s.isOfKernel() {
			c.old = append(c.old, s)
		} else {
			c.others = append(c.others, s)
		}
	}
	var is Seen
	for i, s := range c.old {
		if i == 0 || s.Protocol == rtnl.Ours && is.Protocol != rtnl.Ours {
			is = s
		}
	}
	want, wanted := is.fields(), r.seen().fields()
	for i, field := range wanted {
		c.steps = append(c.steps, steps.Field(field.name, want[i].value, field.value, nil)...)
	}
	if len(c.old) > 0 {
		c.steps = append(c.steps, steps.Field("protocol", is.Protocol, rtnl.Ours, nil)...)
		c.steps = append(c.steps, steps.Field("rules with this priority", len(c.old), 1, nil)...)
	}
	return c
}

// isOfKernel reports whether the kernel made the rule, such as the one that leads to the table main. It is not adopted: hardly
// anything works without it, and nobody would bring it back.
func (s Seen) isOfKernel() bool { return s.Protocol == unix.RTPROT_KERNEL }

// check returns an error if others hold the key of a row.
func (c comparison) check() error {
	if len(c.others) > 0 && len(c.steps) > 0 {
		return &ForeignError{Holder: c.others[0]}
	}
	return nil
}

// seen returns the rule that a row wants.
func (r Rule) seen() Seen {
	return Seen{
		Key: r.Key(), From: r.From, To: r.To, Mark: r.Mark, In: r.In, Out: r.Out,
		Table: r.Table, Action: r.Action, Protocol: rtnl.Ours,
	}
}

// row returns the observed rule as a row.
func (s Seen) row() Rule {
	return Rule{
		Priority: s.Key.Priority, From: s.From, To: s.To, Mark: s.Mark, In: s.In, Out: s.Out,
		Table: s.Table, Action: s.Action, Family: s.Key.Family,
	}
}

// field is a field of a rule as text.
type field struct{ name, value string }

// fields returns the fields that rules are compared by. For the zero value all are empty.
func (s Seen) fields() []field {
	priority, table := "", ""
	if s.Key.Priority != 0 {
		priority = strconv.FormatUint(uint64(s.Key.Priority), 10)
	}
	if s.Table != 0 {
		table = s.Table.String()
	}
	return []field{
		{"priority", priority},
		{"from", prefixText(s.From)},
		{"to", prefixText(s.To)},
		{"mark", s.Mark.String()},
		{"in", s.In},
		{"out", s.Out},
		{"action", string(s.Action)},
		{"table", table},
		{"other", s.Other},
	}
}

func prefixText(prefix netip.Prefix) string {
	if !prefix.IsValid() {
		return ""
	}
	return prefix.String()
}

// describe returns the name of a rule in messages, in the syntax of ip(8).
func (s Seen) describe() string {
	var text strings.Builder
	text.WriteString(s.Key.String())
	for _, part := range []struct{ word, value string }{
		{"", s.Other}, {"from", prefixText(s.From)}, {"to", prefixText(s.To)}, {"fwmark", s.Mark.String()}, {"iif", s.In}, {"oif", s.Out},
	} {
		if part.value != "" {
			fmt.Fprintf(&text, " %s", strings.TrimSpace(part.word+" "+part.value))
		}
	}
	fmt.Fprintf(&text, " %s", s.Action)
	if s.Table != 0 {
		fmt.Fprintf(&text, " %s", s.Table)
	}
	return text.String()
}

// ErrForeign is matched by the error for a key whose rule somebody else made.
var ErrForeign = errors.New("somebody else's rule is there")

// ForeignError is the error for a row whose key others hold. It matches ErrForeign.
type ForeignError struct {
	Holder Seen // the first rule that holds the key
}

// Error implements error.
func (e *ForeignError) Error() string {
	remedy := "remove it, choose another priority, or take its place with adopt: true"
	if e.Holder.isOfKernel() {
		remedy = "it is the kernel's own, which is never adopted; choose another priority"
	}
	return fmt.Sprintf("rule %s: %v (%s, protocol %s); it is left alone: %s",
		e.Holder.Key, ErrForeign, e.Holder.describe(), e.Holder.Protocol, remedy)
}

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }
