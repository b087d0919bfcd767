package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// manyRows returns documents with n rows of each kind but addresses, for which
// there is nothing to change. Each version says something else of each row.
func manyRows(n, version int) map[string]string {
	var links, routes, sysctls strings.Builder
	for i := range n {
		fmt.Fprintf(&links, "---\nkind: link\nname: br%d\ntype: bridge\nmtu: %d\n", i, 1300+100*version)
		fmt.Fprintf(&routes, "---\nkind: route\ndestination: 10.%d.0.0/16\ngateway: 192.0.2.%d\n", i, 10+version)
		fmt.Fprintf(&sysctls, "---\nkind: sysctl\nname: net.ipv4.conf.br%d.rp_filter\nvalue: \"%d\"\n", i, version)
	}
	return map[string]string{"links.yaml": links.String(), "routes.yaml": routes.String(), "sysctls.yaml": sysctls.String()}
}

func manyAddresses(n int) map[string]string {
	var addresses strings.Builder
	for i := range n {
		fmt.Fprintf(&addresses, "---\nkind: address\ndevice: br%d\naddress: 10.200.%d.1/24\n", i, i)
	}
	return map[string]string{"addresses.yaml": addresses.String()}
}

const cable = `
kind: link
name: wan0
type: veth
peer: wan1
---
kind: link
name: wan1
---
kind: address
device: wan0
address: 192.0.2.2/24
`

func TestOneChangeToEachRowIsOneIncrementalOperationEach(t *testing.T) {
	t.Parallel()
	const n = 20
	w := testWorld(t, users()[0])
	must(t, w.setup(map[string]string{"cable.yaml": cable}))
	must(t, w.setup(manyRows(n, 1)))
	must(t, w.start(t.Context()))
	w.mustBeDone(t, map[string]counts{"addresses": {1, 1, 0}, "links": {n + 2, n + 2, 0}, "routes": {n, n, 0}, "sysctls": {n, n, 0}})
	before := w.operations(t)

	must(t, w.setup(manyRows(n, 2)))
	must(t, w.setup(manyAddresses(n)))
	w.mustBeDone(t, map[string]counts{"addresses": {n + 1, n + 1, 0}, "links": {n + 2, n + 2, 0}, "routes": {n, n, 0}, "sysctls": {n, n, 0}})
	must(t, until(t.Context(), patience, func(ctx context.Context) error {
		return w.inside(ctx, "sh", "-c", fmt.Sprintf(`
			test $(ip -o link show type bridge | grep -c 'mtu 1500') = %[1]d &&
			test $(ip route show proto 79 | grep -c 'via 192.0.2.12') = %[1]d &&
			test $(cat /proc/sys/net/ipv4/conf/br*/rp_filter | grep -c 2) = %[1]d`, n)).failure()
	}))
	// A last change: if anything were done twice, it would be done before.
	must(t, w.setup(map[string]string{"last.yaml": "kind: sysctl\nname: net.ipv4.ip_default_ttl\nvalue: \"65\"\n"}))
	w.mustBeDone(t, map[string]counts{"addresses": {n + 1, n + 1, 0}, "links": {n + 2, n + 2, 0}, "routes": {n, n, 0}, "sysctls": {n + 1, n + 1, 0}})

	after := w.operations(t)
	for name, count := range before {
		after[name] -= count
	}
	want := map[string]float64{
		"addresses": n, "links": n, "routes": n, "sysctls": n + 1,
		"addresses failed": 0, "links failed": 0, "routes failed": 0, "sysctls failed": 0,
	}
	if diff := differ(want, after); diff != "" {
		t.Errorf("operations: %s", diff)
	}
	metrics := w.scrape(t.Context(), "/metrics")
	must(t, metrics.failure())
	lint(t, metrics.stdout)
	must(t, w.stop())
}

// operations returns how many operations each reconciler has done, and how many
// of them failed.
func (w *world) operations(t *testing.T) map[string]float64 {
	t.Helper()
	total, err := w.counter(t.Context(), "incremental_total")
	must(t, err)
	failed, err := w.counter(t.Context(), "incremental_errors_total")
	must(t, err)
	for name, count := range failed {
		total[name+" failed"] = count
	}
	return total
}

// mustBeDone waits until the status has these rows, all well.
func (w *world) mustBeDone(t *testing.T, want map[string]counts) {
	t.Helper()
	must(t, until(t.Context(), patience, func(ctx context.Context) error {
		r := w.allDone(ctx)
		if diff := differ(want, countsIn(r.stdout)); diff != "" {
			return fmt.Errorf("rows, done and deleting: %s", diff)
		}
		return r.failure()
	}))
}
