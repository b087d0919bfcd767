package sysctl

import "testing"

func TestTheDeviceOfASysctl(t *testing.T) {
	for name, want := range map[string]string{
		"net.ipv4.conf.eth0.forwarding":     "eth0",
		"net/ipv6/conf/eth0.100/accept_ra":  "eth0.100",
		"net.ipv4.neigh.eth0/100.gc_stale":  "eth0.100",
		"net.mpls.conf.eth0.input":          "eth0",
		"net.ipv4.conf.all.forwarding":      "",
		"net.ipv4.conf.default.rp_filter":   "",
		"net.ipv4.ip_forward":               "",
		"net.ipv4.route.eth0.max_size":      "",
		"net.core.conf.somaxconn":           "",
		"kernel.yama.conf.eth0.ptrace":      "",
		"nothing":                           "",
		"net.ipv4.neigh.default.gc_thresh1": "",
	} {
		if got := (Sysctl{Name: name}).Device(); got != want {
			t.Errorf("%s is of device %q, expected %q", name, got, want)
		}
	}
}
