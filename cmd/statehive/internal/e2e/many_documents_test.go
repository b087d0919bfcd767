package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// objectSet is what documents declare, by the names of tables, and there by what
// identifies it in the kernel or on the disk.
type objectSet map[string]map[string]object

// object is a document, and what is seen of it when it is fulfilled.
type object struct{ document, state string }

// allTables are those of all kinds.
var allTables = []string{"sysctls", "links", "addresses", "routes", "rules", "neighbors", "nft-tables", "files"}

// How many objects there are at most, for each unit of the scale.
const (
	unitLinks     = 10
	unitAddresses = 20
	unitRoutes    = 100
	unitRules     = 20
	unitNeighbors = 20
	unitTables    = 4
	unitFiles     = 20
)

// cableOf holds the gateways of all routes.
const cableOf, cableEnd = "cable0", "cable1"

// chooser adds objects that it chooses to a set.
type chooser struct {
	*rand.Rand
	objectSet

	dir  string // of the files
	most int    // the part of the objects that is there, in thirds
}

// chooseMany returns a part of all objects, whose documents can all be fulfilled.
func (w *world) chooseMany(choose *rand.Rand) objectSet {
	c := chooser{choose, objectSet{}, w.files(), choose.IntN(4)}
	c.links()
	devices := slices.Sorted(maps.Keys(c.objectSet["links"]))
	c.sysctls(append([]string{"guest0", "ext1"}, devices...))
	c.addresses(devices)
	isTun := func(name string) bool { return strings.HasPrefix(c.objectSet["links"][name].state, "tun ") }
	c.neighbors(append([]string{"ext0"}, slices.DeleteFunc(devices, isTun)...))
	c.rules()
	c.tables()
	if c.IntN(4) > 0 { // else without a cable and routes
		c.cable()
		c.routes()
	}
	c.plainFiles()
	c.template()
	return c.objectSet
}

func (c *chooser) there() bool { return c.IntN(3) < c.most }

func (c *chooser) add(table, key, state, format string, args ...any) {
	if c.objectSet[table] == nil {
		c.objectSet[table] = map[string]object{}
	}
	c.objectSet[table][key] = object{fmt.Sprintf(format, args...), state}
}

// links are pairs, bridges and tuns. The second end of a pair is a port of the next bridge
// if there is that.
func (c *chooser) links() {
	for i := unitLinks**many.scale - 4; i >= 0; i -= 2 { // two are the cable
		if !c.there() {
			continue
		}
		first, second := fmt.Sprintf("k%d", i), fmt.Sprintf("k%d", i+1)
		if mtu := 1400 + 50*c.IntN(2); i%4 == 0 {
			bridge := fmt.Sprintf("k%d", i+2)
			if _, there := c.objectSet["links"][bridge]; !there {
				bridge = ""
			}
			c.pair(first, second, mtu, bridge)
		} else {
			c.link(first, "bridge", mtu, fmt.Sprintf("02:00:01:%02x:%02x:%02x", c.IntN(2), i>>8, i&255), "")
			c.link(second, "tun", mtu, "", "")
		}
	}
}

// link adds a link. What is not said of one is left alone, so it is always said or never.
func (c *chooser) link(name, kind string, mtu int, mac, master string) {
	document, state := fmt.Sprintf("kind: link\nname: %s\nmtu: %d\n", name, mtu), fmt.Sprint(" mtu ", mtu)
	for _, field := range [][2]string{{"type", kind}, {"mac", mac}, {"master", master}} {
		if field[1] != "" {
			document += fmt.Sprintf("%s: %q\n", field[0], field[1])
		}
	}
	if kind == "tun" {
		state = "tun" + state
	}
	if mac != "" {
		state += " mac " + mac
	}
	if master != "" {
		state += " master " + master
	}
	c.add("links", name, state, "%s", document)
}

func (c *chooser) pair(first, second string, mtu int, master string) {
	c.add("links", first, fmt.Sprint(" mtu ", mtu), "kind: link\nname: %s\nmtu: %d\ntype: veth\npeer: %s\n", first, mtu, second)
	c.link(second, "", mtu, "", master)
}

// manySysctls are those of a device that are declared. All are 0 where they are not.
var manySysctls = []string{"rp_filter", "arp_ignore", "arp_announce"}

func (c *chooser) sysctls(devices []string) {
	for _, device := range devices {
		for _, name := range manySysctls {
			if c.there() {
				name, value := "net.ipv4.conf."+device+"."+name, fmt.Sprint(1+c.IntN(2))
				c.add("sysctls", name, value, "kind: sysctl\nname: %s\nvalue: %q\n", name, value)
			}
		}
	}
}

func (c *chooser) addresses(devices []string) {
	for i := range unitAddresses * *many.scale {
		if len(devices) > 0 && c.there() {
			scope := "global"
			if i%4 == 0 {
				scope = []string{"global", "host"}[c.IntN(2)]
			}
			c.address(devices[i%len(devices)], hostNumber(128, i)+[]string{"/32", "/128"}[i%2], scope, c.IntN(3) == 0)
		}
	}
}

func (c *chooser) address(device, address, scope string, ends bool) {
	more, state := "", "scope "+scope
	if scope != "global" {
		more = "scope: " + scope + "\n"
	}
	if ends {
		more, state = more+"validLifetime: 3600s\n", state+", ends"
	}
	c.add("addresses", device+" "+address, state, "kind: address\ndevice: %s\naddress: %s\n%s", device, address, more)
}

func (c *chooser) cable() {
	c.pair(cableOf, cableEnd, 1500, "")
	c.address(cableOf, "10.254.0.1/24", "global", false)
	c.address(cableOf, "2001:db8:254::1/64", "global", false)
}

// neighbors are also on a device of others.
func (c *chooser) neighbors(devices []string) {
	for i := range unitNeighbors * *many.scale {
		if !c.there() {
			continue
		}
		device, address := devices[i%len(devices)], hostNumber(129, i)
		mac := fmt.Sprintf("02:00:00:%02x:%02x:%02x", c.IntN(2), i>>8, i&255)
		c.add("neighbors", device+" "+address, mac, "kind: neighbor\ndevice: %s\naddress: %s\nmac: %q\n", device, address, mac)
	}
}

// routes are in the main table and in one that rules look in.
func (c *chooser) routes() {
	for i := range unitRoutes * *many.scale {
		if !c.there() {
			continue
		}
		destination, table := destinationNumber(i), []string{"150", "main", "main"}[i%3]
		way, state := c.way(i)
		c.add("routes", destination, state+" table "+table, "kind: route\ndestination: %s\ntable: %q\n%s", destination, table, way)
	}
}

// way is where a route leads.
func (c *chooser) way(i int) (document, state string) {
	gateway := gatewayNumber(i, c.IntN(3))
	switch c.IntN(8) {
	case 0:
		return "type: blackhole\n", "blackhole"
	case 1:
		weight := 1 + c.IntN(2)
		other := gatewayNumber(i, 3)
		hops := []string{fmt.Sprintf("%s*%d", gateway, weight), other + "*1"}
		slices.Sort(hops)
		return fmt.Sprintf("nexthops:\n- {gateway: %q, weight: %d}\n- {gateway: %q}\n", gateway, weight, other), strings.Join(hops, " ")
	case 2:
		return fmt.Sprintf("gateway: %q\nmtu: 1400\n", gateway), gateway + " mtu 1400"
	}
	return fmt.Sprintf("gateway: %q\n", gateway), gateway
}

func (c *chooser) rules() {
	for i := range unitRules * *many.scale {
		if !c.there() {
			continue
		}
		family, from := "inet", fmt.Sprintf("12.%d.%d.0/24", i>>8, i&255)
		if i%5 == 0 {
			family, from = "inet6", fmt.Sprintf("2001:db8:130:%x::/64", i+1)
		}
		table := 150 + c.IntN(2)
		then, state := fmt.Sprintf("table: %d\n", table), fmt.Sprintf("table %d", table)
		if c.IntN(4) == 0 {
			then, state = "action: unreachable\nmark: 0x10\n", "unreachable mark 0x10"
		}
		c.add("rules", fmt.Sprint(family, " ", 10_000+i), fmt.Sprintf("from %s %s", from, state),
			"kind: rule\npriority: %d\nfrom: %s\n%s", 10_000+i, from, then)
	}
}

func (c *chooser) tables() {
	for i := range unitTables * *many.scale {
		if !c.there() {
			continue
		}
		name, policy, rules, elements := fmt.Sprintf("k%d", i), []string{"drop", "accept"}[c.IntN(2)], c.IntN(10), c.IntN(20)
		var b strings.Builder
		fmt.Fprintf(&b, "kind: nft\nname: %s\nsets:\n- name: hosts\n  type: ipv4_addr\n  elements:", name)
		if elements == 0 {
			b.WriteString(" []")
		}
		for j := range elements {
			fmt.Fprintf(&b, "\n  - 192.0.2.%d", 2*j)
		}
		fmt.Fprintf(&b, "\nchains:\n- name: forward\n  hook: forward\n  priority: filter\n  policy: %s\n", policy)
		if rules > 0 {
			b.WriteString("  rules:\n")
		}
		for j := range rules {
			fmt.Fprintf(&b, "  - match: {saddr: \"@hosts\", proto: tcp, dport: %d}\n    accept: true\n", 1000+j)
		}
		c.add("nft-tables", name, fmt.Sprintf("forward: policy %s, %d rules; hosts: %d elements", policy, rules, elements), "%s", b.String())
	}
}

// plainFiles are made by us, and every fifth was there before: it is to be brought back.
func (c *chooser) plainFiles() {
	for i := range unitFiles * *many.scale {
		if !c.there() {
			continue
		}
		name, more := fmt.Sprintf("k%d", i), ""
		if i%5 == 0 {
			name, more = fmt.Sprintf("adopted%d", i), "adopt: true\nonDelete: restore\n"
		}
		mode, content := []string{"0600", "0644"}[c.IntN(2)], fmt.Sprintf("file %d, version %d\n", i, c.IntN(3))
		c.add("files", name, mode+" "+content, "kind: file\npath: %s/%s\nmode: %q\ncontent: %q\n%s", c.dir, name, mode, content, more)
	}
}

// template adds a file that has the names of all links.
func (c *chooser) template() {
	if !c.there() {
		return
	}
	content := ""
	for _, name := range slices.Sorted(maps.Keys(c.objectSet["links"])) {
		content += name + " "
	}
	c.add("files", "links", "0644 "+content, "kind: file\npath: %s/links\ntemplate: %q\n", c.dir, `{{range rows "links"}}{{.name}} {{end}}`)
}

// hostNumber returns an address in a network of its own. Every other one is of IPv6.
func hostNumber(network, i int) string {
	if i%2 == 0 {
		return fmt.Sprintf("10.%d.%d.%d", network, i>>8, i&255)
	}
	return fmt.Sprintf("2001:db8:%d::%x", network, i)
}

// destinationNumber returns a network. Every fifth is of IPv6.
func destinationNumber(i int) string {
	switch i % 5 {
	case 0:
		return fmt.Sprintf("2001:db8:64:%x::/64", i+1)
	case 1:
		return fmt.Sprintf("11.%d.%d.0/24", i>>8, i&255)
	}
	return fmt.Sprintf("10.64.%d.%d/32", i>>8, i&255)
}

func gatewayNumber(i, version int) string {
	if i%5 == 0 {
		return fmt.Sprintf("2001:db8:254::%x", 2+version)
	}
	return fmt.Sprintf("10.254.0.%d", 2+version)
}

// without returns the objects that are not in some tables.
func (o objectSet) without(tables ...string) objectSet {
	o = maps.Clone(o)
	for _, table := range tables {
		delete(o, table)
	}
	return o
}

// states are what is seen when all documents are fulfilled.
func (o objectSet) states() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, table := range allTables {
		all[table] = map[string]string{}
		for key, object := range o[table] {
			all[table][key] = object.state
		}
	}
	return all
}

// declareMany writes a file for each kind. Those of which there is nothing are left
// with a comment.
func (w *world) declareMany(o objectSet) error {
	files := map[string]string{}
	for _, table := range allTables {
		text := "# " + table + "\n"
		for _, object := range o[table] {
			text += "---\n" + object.document
		}
		files[table+".yaml"] = text
	}
	return w.setup(files)
}
