package sysctl

import (
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/internal/procsys"
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
	dir := t.TempDir()
	kernel := procsys.New("/proc/sys")
	write := func(t *testing.T, name, value string) {
		t.Helper()
		if err := kernel.Write(name, value); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(t *testing.T, row Sysctl) bool {
		t.Helper()
		is, err := kernel.Read(string(row.Key()))
		if err != nil {
			t.Fatal(err)
		}
		return words(is) == words(row.Value)
	}
	targettest.Run(t, targettest.Contract[Sysctl]{
		Open: func(t *testing.T) reconciler.Target[Sysctl] {
			return newTarget(t, Config{Owned: nstest.Store(t, dir)})
		},
		Key: keyText,
		Rows: []Sysctl{
			{Name: "net.ipv4.ip_forward", Value: "1"},
			{Name: "net.ipv4.ip_local_port_range", Value: "20000 30000"},
			{Name: "net/ipv4/conf/eth0.100/proxy_arp", Value: "1"},
			{Name: "net.ipv6.conf.eth0/100.accept_ra", Value: "0"},
		},
		Variants: []Sysctl{
			{Name: "net.ipv4.ip_local_port_range", Value: "20000 40000"},
			{Name: "net.ipv4.ip_local_port_range", Value: "10000\t30000"},
			{Name: "net.ipv6.conf.eth0/100.accept_ra", Value: "2"},
		},
		Invalid: []Sysctl{
			{Name: "net/../kernel/hostname", Value: "x"},
			{Name: "net.ipv4.tcp_syncookies"},
			{Name: "net.ipv4.tcp_syncookies", Value: "1\n2"},
		},
		Holds: holds,
		Disturb: func(t *testing.T, row Sysctl) {
			name, value := string(row.Key()), "2"
			switch name {
			case "net.ipv4.ip_local_port_range":
				value = "10000\t60000"
			case "net.ipv4.ip_forward", "net.ipv4.conf.eth0/100.proxy_arp":
				value = "0"
			}
			write(t, name, value)
		},
		Foreign: func(t *testing.T) func() bool {
			others := Sysctl{Name: "net.ipv4.conf.p0.proxy_arp", Value: "1"}
			write(t, others.Name, others.Value)
			t.Cleanup(func() { write(t, others.Name, "0") })
			return func() bool { return holds(t, others) }
		},
	})
}
