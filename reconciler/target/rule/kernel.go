package rule

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// sizeofHeader is the size of struct fib_rule_hdr, the fixed part of a message about a
// rule: family, lengths of the prefixes to and from, TOS, table, two unused bytes,
// action, flags.
const sizeofHeader = 12

var actionNumbers = map[Action]byte{
	Lookup: unix.FR_ACT_TO_TBL, Blackhole: unix.FR_ACT_BLACKHOLE,
	Unreachable: unix.FR_ACT_UNREACHABLE, Prohibit: unix.FR_ACT_PROHIBIT,
}

func actionOf(number byte) Action {
	for action, n := range actionNumbers {
		if n == number {
			return action
		}
	}
	switch number {
	case unix.FR_ACT_GOTO:
		return "goto"
	case unix.FR_ACT_NOP:
		return "nop"
	}
	return Action(fmt.Sprint(number))
}

// otherAttributes are the attributes that rows cannot set, with their names in ip(8).
var otherAttributes = map[uint16]string{
	unix.FRA_GOTO: "goto", unix.FRA_FLOW: "realms", unix.FRA_TUN_ID: "tun_id", unix.FRA_L3MDEV: "l3mdev",
	unix.FRA_UID_RANGE: "uidrange", unix.FRA_IP_PROTO: "ipproto", unix.FRA_SPORT_RANGE: "sport", unix.FRA_DPORT_RANGE: "dport",
	unix.FRA_SUPPRESS_IFGROUP: "suppress_ifgroup", unix.FRA_SUPPRESS_PREFIXLEN: "suppress_prefixlength",
}

// decodeRule reads a notification or an answer about a rule. It returns false for a rule of
// another family, such as a rule for multicast routing.
func decodeRule(m syscall.NetlinkMessage) (s Seen, ok bool) {
	if len(m.Data) < sizeofHeader {
		return s, false
	}
	switch m.Data[0] {
	case unix.AF_INET:
		s.Key.Family = route.Inet
	case unix.AF_INET6:
		s.Key.Family = route.Inet6
	default:
		return s, false
	}
	toBits, fromBits, tos := int(m.Data[1]), int(m.Data[2]), m.Data[3]
	s.Table, s.Action = route.Table(m.Data[4]), actionOf(m.Data[7])
	var other []string
	if rtnl.Uint32(m.Data[8:])&unix.FIB_RULE_INVERT != 0 {
		other = append(other, "not")
	}
	if tos != 0 {
		other = append(other, fmt.Sprintf("tos %#02x", tos))
	}
	for kind, value := range rtnl.Attributes(m.Data[sizeofHeader:]) {
		switch kind {
		case unix.FRA_DST:
			s.To = prefixOf(value, toBits)
		case unix.FRA_SRC:
			s.From = prefixOf(value, fromBits)
		case unix.FRA_IIFNAME:
			s.In = rtnl.String(value)
		case unix.FRA_OIFNAME:
			s.Out = rtnl.String(value)
		case unix.FRA_PRIORITY:
			s.Key.Priority = rtnl.Uint32(value)
		case unix.FRA_FWMARK:
			s.Mark.Value = rtnl.Uint32(value)
		case unix.FRA_FWMASK:
			s.Mark.Mask = rtnl.Uint32(value)
		case unix.FRA_TABLE:
			s.Table = route.Table(rtnl.Uint32(value))
		case unix.FRA_PROTOCOL:
			if len(value) > 0 {
				s.Protocol = rtnl.Protocol(value[0])
			}
		case unix.FRA_PAD:
		default:
			if text := otherText(kind, value); text != "" {
				other = append(other, text)
			}
		}
	}
	s.Other = strings.Join(other, ", ")
	return s, true
}

func prefixOf(value []byte, bits int) netip.Prefix {
	addr, _ := netip.AddrFromSlice(value)
	return netip.PrefixFrom(addr, bits)
}

// otherText describes an attribute that rows cannot set. It returns an empty string if the
// attribute has no effect.
func otherText(kind uint16, value []byte) string {
	suppresses := kind == unix.FRA_SUPPRESS_IFGROUP || kind == unix.FRA_SUPPRESS_PREFIXLEN
	if suppresses && int32(rtnl.Uint32(value)) == -1 {
		return ""
	}
	name, known := otherAttributes[kind]
	if !known {
		name = fmt.Sprintf("attribute %d", kind)
	}
	return fmt.Sprintf("%s 0x%x", name, value)
}

// request returns a request about a rule, which it specifies as exactly as possible.
func (s Seen) request(messageType, flags uint16) rtnl.Request {
	r := rtnl.Request{Type: messageType, Flags: flags, Data: make([]byte, sizeofHeader, 128)}
	r.Data[0] = unix.AF_INET
	if s.Key.Family == route.Inet6 {
		r.Data[0] = unix.AF_INET6
	}
	r.Data[7] = actionNumbers[s.Action] // 0 for unknown actions, which matches any
	r.AddUint32(unix.FRA_PRIORITY, s.Key.Priority)
	r.Add(unix.FRA_PROTOCOL, []byte{byte(s.Protocol)})
	if s.Table != 0 {
		r.AddUint32(unix.FRA_TABLE, uint32(s.Table))
	}
	if s.To.IsValid() {
		r.Data[1] = byte(s.To.Bits())
		r.Add(unix.FRA_DST, s.To.Addr().AsSlice())
	}
	if s.From.IsValid() {
		r.Data[2] = byte(s.From.Bits())
		r.Add(unix.FRA_SRC, s.From.Addr().AsSlice())
	}
	if s.Mark != (Mark{}) {
		r.AddUint32(unix.FRA_FWMARK, s.Mark.Value)
		r.AddUint32(unix.FRA_FWMASK, s.Mark.Mask)
	}
	if s.In != "" {
		r.AddString(unix.FRA_IIFNAME, s.In)
	}
	if s.Out != "" {
		r.AddString(unix.FRA_OIFNAME, s.Out)
	}
	return r
}

// addition returns the request that adds a rule after the rules with the same priority.
func (s Seen) addition(flags uint16) rtnl.Request {
	return s.request(unix.RTM_NEWRULE, flags|unix.NLM_F_CREATE)
}

// deletion returns the request that removes the first rule equal to this one. A field that
// the request leaves out, such as a prefix, matches anything: to remove several rules with a
// key, begin with the first.
func (s Seen) deletion() rtnl.Request { return s.request(unix.RTM_DELRULE, 0) }

// list returns all rules in the order of their evaluation.
func (t *Target) list(ctx context.Context) ([]Seen, error) {
	request := rtnl.Request{Type: unix.RTM_GETRULE, Data: make([]byte, sizeofHeader)}
	rules, err := rtnl.Dump(ctx, t.conn, request, func(m syscall.NetlinkMessage) (Seen, bool) {
		s, ok := decodeRule(m)
		return s, ok && m.Header.Type == unix.RTM_NEWRULE
	})
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	next := make(map[Key]uint32, len(rules))
	for i := range rules {
		key := rules[i].Key
		rules[i].Order = next[key]
		next[key]++
	}
	return rules, nil
}
