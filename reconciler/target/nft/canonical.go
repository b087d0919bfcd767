package nft

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// shape says which attributes of an expression matter. The value of an attribute that contains
// other attributes is their shape; the value of any other attribute is nil.
type shape map[uint16]shape

// shapes are the shapes of the expressions that rules consist of. The kernel reports more
// attributes than were requested, such as the values of a counter; these are left out.
func shapes() map[string]shape {
	data := shape{
		unix.NFTA_DATA_VALUE:   nil,
		unix.NFTA_DATA_VERDICT: {unix.NFTA_VERDICT_CODE: nil, unix.NFTA_VERDICT_CHAIN: nil},
	}
	return map[string]shape{
		"meta": {unix.NFTA_META_DREG: nil, unix.NFTA_META_KEY: nil, unix.NFTA_META_SREG: nil},
		"cmp":  {unix.NFTA_CMP_SREG: nil, unix.NFTA_CMP_OP: nil, unix.NFTA_CMP_DATA: data},
		"payload": {
			unix.NFTA_PAYLOAD_DREG: nil, unix.NFTA_PAYLOAD_BASE: nil, unix.NFTA_PAYLOAD_OFFSET: nil, unix.NFTA_PAYLOAD_LEN: nil,
			unix.NFTA_PAYLOAD_SREG: nil, unix.NFTA_PAYLOAD_CSUM_TYPE: nil, unix.NFTA_PAYLOAD_CSUM_OFFSET: nil, unix.NFTA_PAYLOAD_CSUM_FLAGS: nil,
		},
		"bitwise": {
			unix.NFTA_BITWISE_SREG: nil, unix.NFTA_BITWISE_DREG: nil, unix.NFTA_BITWISE_LEN: nil,
			unix.NFTA_BITWISE_MASK: data, unix.NFTA_BITWISE_XOR: data,
			bitwiseOp: nil, bitwiseData: data,
		},
		"lookup":  {unix.NFTA_LOOKUP_SET: nil, unix.NFTA_LOOKUP_SREG: nil, unix.NFTA_LOOKUP_DREG: nil, unix.NFTA_LOOKUP_FLAGS: nil},
		"ct":      {unix.NFTA_CT_DREG: nil, unix.NFTA_CT_KEY: nil, unix.NFTA_CT_DIRECTION: nil, unix.NFTA_CT_SREG: nil},
		"counter": {},
		"immediate": {
			unix.NFTA_IMMEDIATE_DREG: nil, unix.NFTA_IMMEDIATE_DATA: data,
		},
		"reject": {unix.NFTA_REJECT_TYPE: nil, unix.NFTA_REJECT_ICMP_CODE: nil},
		"nat": {
			unix.NFTA_NAT_TYPE: nil, unix.NFTA_NAT_FAMILY: nil, unix.NFTA_NAT_REG_ADDR_MIN: nil, unix.NFTA_NAT_REG_ADDR_MAX: nil,
			unix.NFTA_NAT_REG_PROTO_MIN: nil, unix.NFTA_NAT_REG_PROTO_MAX: nil, unix.NFTA_NAT_FLAGS: nil,
		},
		"masq": {unix.NFTA_MASQ_FLAGS: nil, unix.NFTA_MASQ_REG_PROTO_MIN: nil, unix.NFTA_MASQ_REG_PROTO_MAX: nil},
	}
}

// Attributes that package unix lacks.
const (
	bitwiseOp   = 6
	bitwiseData = 7
)

var knownShapes = shapes()

// expressionText returns a text that is equal for equal expressions.
func expressionText(expression []byte) string {
	name, data := "", []byte(nil)
	for kind, value := range rtnl.Attributes(expression) {
		switch kind {
		case unix.NFTA_EXPR_NAME:
			name = rtnl.String(value)
		case unix.NFTA_EXPR_DATA:
			data = value
		}
	}
	known, ok := knownShapes[name]
	if !ok { // not an expression of our rules: it only has to differ from those
		return fmt.Sprintf("%s %x;", name, data)
	}
	var text strings.Builder
	text.WriteString(name)
	writeAttributes(&text, data, known, name == "nat")
	text.WriteString(";")
	return text.String()
}

// writeAttributes writes the attributes that matter, in the order of their kinds. The number 0
// counts as a missing attribute.
func writeAttributes(text *strings.Builder, attributes []byte, known shape, nat bool) {
	const highest = 8
	var values [highest + 1][]byte
	for kind, value := range rtnl.Attributes(attributes) {
		if _, matters := known[kind]; matters && kind <= highest {
			values[kind] = value
		}
	}
	for kind, value := range values {
		if nat && kind == unix.NFTA_NAT_FLAGS {
			value = withoutImplied(value)
		}
		inner := known[uint16(kind)]
		switch {
		case inner != nil && value != nil:
			fmt.Fprintf(text, " %d(", kind)
			writeAttributes(text, value, inner, false)
			text.WriteString(")")
		case !zero(value):
			fmt.Fprintf(text, " %d=%x", kind, value)
		}
	}
}

// withoutImplied clears the flags that the kernel sets by itself if registers with an address
// or a port are given.
func withoutImplied(flags []byte) []byte {
	const addressAndPort = 1 | 2
	if len(flags) != 4 {
		return flags
	}
	return []byte{flags[0], flags[1], flags[2], flags[3] &^ addressAndPort}
}

func zero(b []byte) bool {
	for _, one := range b {
		if one != 0 {
			return false
		}
	}
	return true
}
