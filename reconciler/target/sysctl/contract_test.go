package sysctl

import (
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/targettest"
)

func newTarget(t *testing.T, cfg Config) *Target {
	t.Helper()
	if cfg.Owned == nil {
		cfg.Owned = nstest.Store(t, t.TempDir())
	}
	target, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func keyText(row Sysctl) string { return string(row.Key()) }

func TestTargetKeepsTheContract(t *testing.T) {
	nstest.Veth(t, "eth0.100", "p0")
	target := newTarget(t, Config{})
	targettest.Run(t, targettest.Contract[Sysctl]{
		Target: target,
		Key:    keyText,
		Rows: []Sysctl{
			{Name: "net.ipv4.ip_forward", Value: "1"},
			{Name: "net.ipv4.ip_local_port_range", Value: "20000 30000"},
			{Name: "net/ipv4/conf/eth0.100/proxy_arp", Value: "1"},
			{Name: "net.ipv6.conf.eth0/100.accept_ra", Value: "0"},
		},
		Variants: []Sysctl{{Name: "net.ipv4.ip_local_port_range", Value: "20000 40000"}},
		Disturb: func(t *testing.T, row Sysctl) {
			name := string(row.Key())
			value := "2"
			if name == "net.ipv4.ip_local_port_range" {
				value = "10000\t60000"
			}
			if name == "net.ipv4.ip_forward" || name == "net.ipv4.conf.eth0/100.proxy_arp" {
				value = "0"
			}
			if err := target.files.write(name, value); err != nil {
				t.Fatal(err)
			}
		},
	})
}
