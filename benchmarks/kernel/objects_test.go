package main

import (
	"context"
	"net/netip"
	"strings"
	"testing"
)

func TestRoutesDifferAndAreSpreadOverGateways(t *testing.T) {
	const n = 5_000
	seen, byGateway, hosts := map[netip.Prefix]bool{}, map[netip.Addr]int{}, 0
	cable := netip.MustParsePrefix(cableAddress)
	for _, r := range routes(n) {
		if seen[r.destination] || r.destination != r.destination.Masked() || !cable.Contains(r.gateway) || r.gateway == cable.Addr() {
			t.Fatalf("bad route %v", r)
		}
		seen[r.destination] = true
		byGateway[r.gateway]++
		if r.destination.Bits() == 32 {
			hosts++
		}
	}
	if hosts != n/2 || len(byGateway) != maxGateways || byGateway[gateway(0)] != n/maxGateways {
		t.Errorf("%d routes to hosts, by gateway %v", hosts, byGateway)
	}
}

func TestLastObjectsLieInTheirNetworks(t *testing.T) {
	for prefix, network := range map[netip.Prefix]string{
		destination(maxRoutes - 2): "10.64.0.0/10",
		destination(maxRoutes - 1): "11.0.0.0/8",
	} {
		if net := netip.MustParsePrefix(network); prefix.Bits() == 32 && !net.Contains(prefix.Addr()) {
			t.Errorf("%v is not in %v", prefix, net)
		}
	}
	if last := destination(maxRoutes - 1); last.Addr().As4()[0] > 12 {
		t.Errorf("last network %v", last)
	}
	last := addresses(maxAddresses, 1)
	if v4 := last[maxAddresses-2].address; !netip.MustParsePrefix("10.128.0.0/10").Contains(v4.Addr()) {
		t.Errorf("last address %v", v4)
	}
}

func TestAddressesDifferAndAreHalfOfEachFamilyOnEachDevice(t *testing.T) {
	seen, byDevice := map[netip.Prefix]bool{}, map[string][2]int{}
	for _, a := range addresses(400, 10) {
		if seen[a.address] || a.address.Bits() != a.address.Addr().BitLen() {
			t.Fatalf("bad address %v", a)
		}
		seen[a.address] = true
		of := byDevice[a.device]
		if a.address.Addr().Is4() {
			of[0]++
		} else {
			of[1]++
		}
		byDevice[a.device] = of
	}
	for device, of := range byDevice {
		if of != [2]int{20, 20} {
			t.Errorf("%s has %v", device, of)
		}
	}
}

func TestLinksAreAQuarterBridgesAndOtherwisePairs(t *testing.T) {
	for _, n := range []int{20, 21, 40, 2_000} {
		kinds, names := map[string]int{}, map[string]bool{}
		all := links(n)
		for _, l := range all {
			kinds[l.kind]++
			names[l.name] = true
		}
		for _, l := range all {
			if l.peer != "" && !names[l.peer] {
				t.Errorf("of %d: %s has no other end", n, l.name)
			}
		}
		if len(all) != n || len(names) != n || kinds["veth"] != kinds[""] || n%8 == 0 && kinds["bridge"] != n/4 {
			t.Errorf("of %d: %d links, %v", n, len(all), kinds)
		}
	}
}

func TestBatchesHaveALineForEachObject(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		lines int
		first string
	}{
		"routes":    {routeBatch(routes(10), "add"), 10, "route add 10.64.0.0/32 via 10.254.0.2 proto 79\n"},
		"removal":   {routeBatch(routes(10), "del"), 10, "route del 10.64.0.0/32 via 10.254.0.2 proto 79\n"},
		"addresses": {addressBatch(addresses(10, 2), "add"), 10, "addr add 10.128.0.0/32 dev dev0\n"},
		"links":     {linkBatch(links(16)), 16, "link add br0 up type bridge\n"},
		"no links":  {linkRemoval(links(16)), 10, "link del br0\n"}, // 6 go with their other ends
		"rules":     {ruleBatch(rules(10), "add"), 10, "rule add priority 1000 from 12.0.0.0/24 table 100 protocol 79\n"},
		"neighbors": {neighborBatch(neighbors(10), "del"), 10, "neigh del 10.128.0.0 lladdr 02:00:00:00:00:00 dev cable0 nud permanent protocol 79\n"},
		"tables":    {tablesScript(300), 3 * (rulesOfTable + 5), "table inet t0 {\n\tchain in {\n"},
		"no tables": {tablesRemoval(300), 3, "delete table inet t0\n"},
		"set":       {setScript(10), 10 + 11, "table inet t0 {\n\tset hosts {\n"},
		"devices":   {deviceBatch(4), 4, "link add dev0 up type veth peer name dev1\n"},
	} {
		if strings.Count(test.text, "\n") != test.lines || !strings.HasPrefix(test.text, test.first) {
			t.Errorf("%s: expected %d lines that begin with %q, got\n%s", name, test.lines, test.first, test.text)
		}
	}
}

// The source takes over what is not wrong in any way.
func TestDocumentsAreTakenOver(t *testing.T) {
	trial := &trial{dir: t.TempDir()}
	for name, text := range map[string]string{
		"routes":    keptDocument + cableDocument + routeDocuments(routes(100)),
		"addresses": keptDocument + deviceDocuments(4) + addressDocuments(addresses(100, 4)),
		"links":     emptyDocument + linkDocuments(links(50)),
		"rules":     keptDocument + ruleDocuments(rules(50)),
		"neighbors": keptDocument + cableDocument + neighborDocuments(neighbors(50)),
		"tables":    keptDocument + tablesDocuments(300),
		"set":       keptDocument + setDocument(100),
		"files":     keptDocument + fileDocuments("/somewhere", 50),
	} {
		if took, err := trial.parse(t.Context(), text); err != nil || took <= 0 {
			t.Errorf("%s: %v s, %v", name, took, err)
		}
	}
	if _, err := trial.parse(t.Context(), "kind: nothing\n"); err == nil {
		t.Error("documents that were not taken over were timed")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := trial.parse(ended, keptDocument); err == nil {
		t.Error("no error of a source that has ended")
	}
}
