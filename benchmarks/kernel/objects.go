package main

import (
	"fmt"
	"net/netip"
	"strings"
)

// Bounds of what fits into the networks and names below.
const (
	maxRoutes    = 200_000
	maxAddresses = 500_000
	maxLinks     = 20_000
	maxDevices   = 2_000
	maxObjects   = 60_000
	maxGateways  = 10
)

// harmless is a document that changes nothing, for files that shall not be empty.
const harmless = "kind: sysctl\nname: net.ipv4.conf.%s.log_martians\nvalue: \"0\"\n"

var (
	keptDocument  = fmt.Sprintf(harmless, "all")
	emptyDocument = fmt.Sprintf(harmless, "default")
)

// The cable is a pair of links, up, with an address in whose network the gateways are.
const (
	cableName     = "cable0"
	cablePeer     = "cable1"
	cableAddress  = "10.254.0.1/24"
	cableDocument = "---\nkind: link\nname: " + cableName + "\ntype: veth\npeer: " + cablePeer + "\n" +
		"---\nkind: link\nname: " + cablePeer + "\n" +
		"---\nkind: address\ndevice: " + cableName + "\naddress: " + cableAddress + "\n"
	cableBatch = "link add " + cableName + " up type veth peer name " + cablePeer + "\n" +
		"link set " + cablePeer + " up\n" +
		"addr add " + cableAddress + " dev " + cableName + "\n"
)

// routeAt is one of the routes: every other one leads to a host, the others to
// networks of 256 addresses.
type routeAt struct {
	destination netip.Prefix
	gateway     netip.Addr
}

func routes(n int) []routeAt {
	all := make([]routeAt, n)
	for i := range all {
		all[i] = routeAt{destination(i), gateway(i)}
	}
	return all
}

func destination(i int) netip.Prefix {
	k := uint32(i / 2)
	if i%2 == 0 {
		return netip.PrefixFrom(addr4(10<<24|64<<16+k), 32) // 10.64.0.0 and up
	}
	return netip.PrefixFrom(addr4(11<<24+k<<8), 24) // 11.0.0.0 and up
}

// gateway returns one of those in the network of the cable.
func gateway(i int) netip.Addr { return addr4(10<<24 | 254<<16 | uint32(2+i%maxGateways)) }

func addr4(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

func routeDocuments(all []routeAt) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "---\nkind: route\ndestination: %v\ngateway: %v\n", r.destination, r.gateway)
	}
	return b.String()
}

// routeBatch returns lines for ip -batch with a verb, add or del.
func routeBatch(all []routeAt, verb string) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "route %s %v via %v proto 79\n", verb, r.destination, r.gateway)
	}
	return b.String()
}

// deviceName is that of one of the links that addresses are on: both ends of pairs.
func deviceName(i int) string { return fmt.Sprintf("dev%d", i) }

func deviceDocuments(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\nkind: link\nname: %s\n", deviceName(i))
		if i%2 == 0 {
			fmt.Fprintf(&b, "type: veth\npeer: %s\n", deviceName(i+1))
		}
	}
	return b.String()
}

func deviceBatch(n int) string {
	var b strings.Builder
	for i := range n {
		if i%2 == 0 {
			fmt.Fprintf(&b, "link add %s up type veth peer name %s\n", deviceName(i), deviceName(i+1))
		} else {
			fmt.Fprintf(&b, "link set %s up\n", deviceName(i))
		}
	}
	return b.String()
}

// addressAt is one of the addresses.
type addressAt struct {
	device  string
	address netip.Prefix
}

func addresses(n, devices int) []addressAt {
	all := make([]addressAt, n)
	for i := range all {
		k := uint32(i / 2)
		address := netip.PrefixFrom(addr4(10<<24|128<<16+k), 32) // 10.128.0.0 and up
		if i%2 == 1 {
			bytes := [16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 13: byte(k >> 16), 14: byte(k >> 8), 15: byte(k)}
			address = netip.PrefixFrom(netip.AddrFrom16(bytes), 128) // 2001:db8:: and up
		}
		all[i] = addressAt{deviceName(i / 2 % devices), address}
	}
	return all
}

func addressDocuments(all []addressAt) string {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "---\nkind: address\ndevice: %s\naddress: %v\n", a.device, a.address)
	}
	return b.String()
}

func addressBatch(all []addressAt, verb string) string {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "addr %s %v dev %s\n", verb, a.address, a.device)
	}
	return b.String()
}

// linkAt is one of the links: a bridge, or an end of a pair, of which the first has
// the name of the other.
type linkAt struct {
	name, kind, peer string
}

// links are a quarter bridges and otherwise ends of pairs.
func links(n int) []linkAt {
	var all []linkAt
	for i := 0; len(all) < n; i++ {
		if i%5 < 2 || len(all)+1 == n { // of five makings two are bridges, and three pairs
			all = append(all, linkAt{name: fmt.Sprintf("br%d", i), kind: "bridge"})
			continue
		}
		one, other := fmt.Sprintf("va%d", i), fmt.Sprintf("vb%d", i)
		all = append(all, linkAt{name: one, kind: "veth", peer: other}, linkAt{name: other})
	}
	return all
}

func linkDocuments(all []linkAt) string {
	var b strings.Builder
	for _, l := range all {
		fmt.Fprintf(&b, "---\nkind: link\nname: %s\n", l.name)
		if l.kind != "" {
			fmt.Fprintf(&b, "type: %s\n", l.kind)
		}
		if l.peer != "" {
			fmt.Fprintf(&b, "peer: %s\n", l.peer)
		}
	}
	return b.String()
}

// linkBatch makes the links with as few requests as ip can.
func linkBatch(all []linkAt) string {
	var b strings.Builder
	for _, l := range all {
		switch {
		case l.peer != "":
			fmt.Fprintf(&b, "link add %s up type %s peer name %s\n", l.name, l.kind, l.peer)
		case l.kind != "":
			fmt.Fprintf(&b, "link add %s up type %s\n", l.name, l.kind)
		default:
			fmt.Fprintf(&b, "link set %s up\n", l.name)
		}
	}
	return b.String()
}

// linkRemoval removes them; the second end of a pair goes with the first.
func linkRemoval(all []linkAt) string {
	var b strings.Builder
	for _, l := range all {
		if l.kind != "" {
			fmt.Fprintf(&b, "link del %s\n", l.name)
		}
	}
	return b.String()
}
