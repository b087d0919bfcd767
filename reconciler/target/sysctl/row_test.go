package sysctl

import (
	"errors"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/procsys"
	"github.com/statehive/statehive/statedb"
)

func TestBothSpellingsOfANameAreOneSysctl(t *testing.T) {
	for _, c := range []struct{ name, dotted, path string }{
		{"net.ipv4.ip_forward", "net.ipv4.ip_forward", "net/ipv4/ip_forward"},
		{"net/ipv4/ip_forward", "net.ipv4.ip_forward", "net/ipv4/ip_forward"},
		{"net.ipv4.conf.all.forwarding", "net.ipv4.ip_forward", "net/ipv4/ip_forward"}, // the same to the kernel
		{"net/ipv4/conf/all/forwarding", "net.ipv4.ip_forward", "net/ipv4/ip_forward"},
		{"net.ipv4.conf.eth0/100.forwarding", "net.ipv4.conf.eth0/100.forwarding", "net/ipv4/conf/eth0.100/forwarding"},
		{"net/ipv4/conf/eth0.100/forwarding", "net.ipv4.conf.eth0/100.forwarding", "net/ipv4/conf/eth0.100/forwarding"},
		{"net/ipv4/conf/a..b/forwarding", "net.ipv4.conf.a//b.forwarding", "net/ipv4/conf/a..b/forwarding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			row, err := Sysctl{Name: c.name, Value: " 1\t2 "}.Normalized()
			if err != nil || row.Name != c.dotted || row.Value != "1 2" {
				t.Fatalf("Normalized = %v, %v", row, err)
			}
			if again, err := row.Normalized(); err != nil || again != row {
				t.Errorf("Normalized again = %v, %v", again, err)
			}
			if got := procsys.PathOf(row.Name); got != c.path {
				t.Errorf("path %q, expected %q", got, c.path)
			}
			var key Key
			if err := key.UnmarshalText([]byte(c.name)); err != nil || key != (Sysctl{Name: c.name}).Key() || string(key) != c.dotted {
				t.Errorf("key %q, %v", key, err)
			}
		})
	}
}

func TestWrongFieldsAreNamed(t *testing.T) {
	for _, c := range []struct {
		row   Sysctl
		field string
	}{
		{Sysctl{Value: "1"}, "name"},
		{Sysctl{Name: "ip_forward", Value: "1"}, "name"},
		{Sysctl{Name: "/proc/sys/net/ipv4/ip_forward", Value: "1"}, "name"},
		{Sysctl{Name: "net/../kernel/hostname", Value: "x"}, "name"},
		{Sysctl{Name: "net.//.kernel", Value: "x"}, "name"},
		{Sysctl{Name: "net/./ipv4", Value: "x"}, "name"},
		{Sysctl{Name: "net..ipv4", Value: "x"}, "name"},
		{Sysctl{Name: "net.ipv4.ip_forward ", Value: "x"}, "name"},
		{Sysctl{Name: "net.ipv4.ip_forward"}, "value"},
		{Sysctl{Name: "net.ipv4.ip_forward", Value: " \t"}, "value"},
		{Sysctl{Name: "net.ipv4.ip_forward", Value: "1\n2"}, "value"},
	} {
		_, err := c.row.Normalized()
		var field *reconciler.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%+v: error %v, expected one about %s", c.row, err, c.field)
		}
		var key Key
		if err := key.UnmarshalText([]byte(c.row.Name)); (err != nil) != (c.field == "name") {
			t.Errorf("key %q: error %v", c.row.Name, err)
		}
	}
}

func TestSchemaMakesATable(t *testing.T) {
	if _, err := statedb.NewTable(statedb.New(), Schema()); err != nil {
		t.Fatal(err)
	}
	if _, err := Default().Normalized(); err == nil {
		t.Error("an empty document is accepted")
	}
}
