package nft

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The registers in which expressions pass values.
const (
	register1 = unix.NFT_REG_1
	register2 = unix.NFT_REG_2
)

// expressions returns the kernel's expressions for a checked rule, in the forms that nft(8)
// understands.
func (t Table) expressions(r Rule) []expr.Any {
	var all []expr.Any
	m := r.Match
	if family := t.familyOf(r); t.Family == Inet && family != "" {
		all = append(all, equal(&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register1}, []byte{family.number()})...)
	}
	all = append(all, matchName(expr.MetaKeyIIFNAME, m.Iif)...)
	all = append(all, matchName(expr.MetaKeyOIFNAME, m.Oif)...)
	all = append(all, t.matchAddresses(m.Saddr, offsets{12, 8})...)
	all = append(all, t.matchAddresses(m.Daddr, offsets{16, 24})...)
	if m.Proto != 0 {
		all = append(all, equal(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register1}, []byte{byte(m.Proto)})...)
	}
	all = append(all, matchPorts(m.Sport, 0)...)
	all = append(all, matchPorts(m.Dport, 2)...)
	all = append(all, matchState(m.CtState)...)
	all = append(all, matchMark(m.Mark)...)
	if r.Counter {
		all = append(all, &expr.Counter{})
	}
	return append(all, t.verdict(r)...)
}

func equal(load expr.Any, data []byte) []expr.Any {
	return []expr.Any{load, &expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: data}}
}

// matchName matches the name of an interface. Names ending in a star are compared up to the
// star, other names including the zero bytes that follow.
func matchName(key expr.MetaKey, name string) []expr.Any {
	if name == "" {
		return nil
	}
	data := make([]byte, unix.IFNAMSIZ)
	copy(data, name)
	if start, open := strings.CutSuffix(name, "*"); open {
		data = []byte(start)
	}
	return equal(&expr.Meta{Key: key, Register: register1}, data)
}

// offsets are the positions of an address in the header of each family.
type offsets struct{ ipv4, ipv6 uint32 }

func (t Table) matchAddresses(a Addresses, at offsets) []expr.Any {
	load := &expr.Payload{DestRegister: register1, Base: expr.PayloadBaseNetworkHeader, Offset: at.ipv4, Len: 4}
	family, _ := t.familyOfAddresses(a)
	if family == IP6 {
		load.Offset, load.Len = at.ipv6, 16
	}
	bits := a.Prefix.Bits()
	switch {
	case family == "":
		return nil
	case a.Set != "":
		return []expr.Any{load, t.lookup(a.Set)}
	case bits == 0: // any address of the family
		return nil
	case bits%8 == 0:
		load.Len = uint32(bits / 8)
		return equal(load, a.Prefix.Addr().AsSlice()[:bits/8])
	}
	mask := lastOf(netip.PrefixFrom(a.Prefix.Addr(), bits)).AsSlice()
	address := a.Prefix.Addr().AsSlice()
	for i := range mask {
		mask[i] = ^(mask[i] ^ address[i])
	}
	return []expr.Any{load, masked(mask), &expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: address}}
}

func masked(mask []byte) expr.Any {
	return &expr.Bitwise{
		SourceRegister: register1, DestRegister: register1, Len: uint32(len(mask)),
		Mask: mask, Xor: make([]byte, len(mask)),
	}
}

// lookup looks up the loaded value in a set of the table.
func (t Table) lookup(set string) expr.Any {
	return &expr.Lookup{SourceRegister: register1, SetName: set}
}

func matchPorts(p Ports, offset uint32) []expr.Any {
	load := &expr.Payload{DestRegister: register1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}
	first, last := binary.BigEndian.AppendUint16(nil, p.First), binary.BigEndian.AppendUint16(nil, p.Last)
	switch {
	case p.Set != "":
		return []expr.Any{load, &expr.Lookup{SourceRegister: register1, SetName: p.Set}}
	case !p.given:
		return nil
	case p.First == p.Last:
		return equal(load, first)
	}
	return []expr.Any{
		load,
		&expr.Cmp{Op: expr.CmpOpGte, Register: register1, Data: first},
		&expr.Cmp{Op: expr.CmpOpLte, Register: register1, Data: last},
	}
}

// states are the bits of connection states.
var states = map[string]uint32{
	"invalid": expr.CtStateBitINVALID, "established": expr.CtStateBitESTABLISHED, "related": expr.CtStateBitRELATED,
	"new": expr.CtStateBitNEW, "untracked": expr.CtStateBitUNTRACKED,
}

func matchState(names []string) []expr.Any {
	if len(names) == 0 {
		return nil
	}
	bits := uint32(0)
	for _, name := range names {
		bits |= states[name]
	}
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: register1},
		masked(binary.NativeEndian.AppendUint32(nil, bits)),
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register1, Data: make([]byte, 4)},
	}
}

func matchMark(m Mark) []expr.Any {
	load := &expr.Meta{Key: expr.MetaKeyMARK, Register: register1}
	value := binary.NativeEndian.AppendUint32(nil, m.value)
	switch m.mask {
	case 0:
		return nil
	case allBits:
		return equal(load, value)
	}
	return []expr.Any{
		load, masked(binary.NativeEndian.AppendUint32(nil, m.mask)),
		&expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: value},
	}
}

func (t Table) verdict(r Rule) []expr.Any {
	switch {
	case r.Accept:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	case r.Drop:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
	case r.Jump != "":
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: r.Jump}}
	case r.Reject:
		return []expr.Any{t.rejection()}
	case r.Masquerade:
		return []expr.Any{&expr.Masq{}}
	case r.Snat.Addr.IsValid():
		return translation(expr.NATTypeSourceNAT, r.Snat)
	case r.Dnat.Addr.IsValid():
		return translation(expr.NATTypeDestNAT, r.Dnat)
	}
	return nil
}

// rejection returns the family's reply for "port unreachable".
func (t Table) rejection() expr.Any {
	switch t.Family {
	case IP:
		return &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 3}
	case IP6:
		return &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 4}
	}
	return &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}
}

func translation(kind expr.NATType, to Translation) []expr.Any {
	family := IP
	if to.Addr.Is6() {
		family = IP6
	}
	nat := &expr.NAT{Type: kind, Family: uint32(family.number()), RegAddrMin: register1, RegAddrMax: register1}
	all := []expr.Any{&expr.Immediate{Register: register1, Data: to.Addr.AsSlice()}}
	if to.Port != 0 {
		all = append(all, &expr.Immediate{Register: register2, Data: binary.BigEndian.AppendUint16(nil, to.Port)})
		nat.RegProtoMin, nat.RegProtoMax, nat.Specified = register2, register2, true
	}
	return append(all, nat)
}
