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
	c.neighbors(append([]string{"ext0"}, devices...))
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

func (c *chooser) links() {
	for i := 0; i+1 < unitLinks**many.scale-2; i += 2 { // two are the cable
		if !c.there() {
			continue
		}
		first, second := fmt.Sprintf("k%d", i), fmt.Sprintf("k%d", i+1)
		if mtu := 1400 + 50*c.IntN(2); i%4 == 0 {
			c.pair(first, second, mtu)
		} else {
			c.link(first, "type: bridge\n", mtu)
			c.link(second, "type: bridge\n", mtu)
		}
	}
}

func (c *chooser) link(name, more string, mtu int) {
	c.add("links", name, fmt.Sprint("mtu ", mtu), "kind: link\nname: %s\nmtu: %d\n%s", name, mtu, more)
}

func (c *chooser) pair(first, second string, mtu int) {
	c.link(first, "type: veth\npeer: "+second+"\n", mtu)
	c.link(second, "", mtu)
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
			c.address(devices[i%len(devices)], hostNumber(128, i)+[]string{"/32", "/128"}[i%2])
		}
	}
}

func (c *chooser) address(device, address string) {
	c.add("addresses", device+" "+address, "", "kind: address\ndevice: %s\naddress: %s\n", device, address)
}

func (c *chooser) cable() {
	c.pair(cableOf, cableEnd, 1500)
	c.address(cableOf, "10.254.0.1/24")
	c.address(cableOf, "2001:db8:254::1/64")
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
		destination, gateway := destinationNumber(i), gatewayNumber(i, c.IntN(3))
		table := []string{"150", "main", "main"}[i%3]
		c.add("routes", destination, gateway+" table "+table, "kind: route\ndestination: %s\ngateway: %s\ntable: %q\n", destination, gateway, table)
	}
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
		c.add("rules", fmt.Sprint(family, " ", 10_000+i), fmt.Sprintf("from %s table %d", from, table),
			"kind: rule\npriority: %d\nfrom: %s\ntable: %d\n", 10_000+i, from, table)
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
