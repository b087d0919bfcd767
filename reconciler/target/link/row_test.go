package link

import (
	"errors"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func TestWrongFieldsAreNamed(t *testing.T) {
	for _, c := range []struct {
		row   Link
		field string
	}{
		{Link{}, "name"},
		{Link{Name: "sixteen-letters!"}, "name"},
		{Link{Name: "a/b"}, "name"},
		{Link{Name: "a b"}, "name"},
		{Link{Name: "eth%d"}, "name"},
		{Link{Name: ".."}, "name"},
		{Link{Name: "a", Type: "vlan"}, "type"},
		{Link{Name: "a", Type: Veth}, "peer"},
		{Link{Name: "a", Type: Veth, Peer: "a"}, "peer"},
		{Link{Name: "a", Type: Veth, Peer: "a:b"}, "peer"},
		{Link{Name: "a", Type: Bridge, Peer: "b"}, "peer"},
		{Link{Name: "a", Peer: "b"}, "peer"},
		{Link{Name: "a", MTU: 1 << 31}, "mtu"},
		{Link{Name: "a", MTU: 67}, "mtu"},
		{Link{Name: "a", MAC: "x"}, "mac"},
		{Link{Name: "a", MAC: "02:00:00:00:00:00:00:01"}, "mac"},
		{Link{Name: "a", MAC: "01:00:5e:00:00:01"}, "mac"},
		{Link{Name: "a", MAC: "00:00:00:00:00:00"}, "mac"},
		{Link{Name: "a", Type: Tun, MAC: "02:00:00:00:00:01"}, "mac"},
		{Link{Name: "a", Master: "a"}, "master"},
		{Link{Name: "a", Master: "a/b"}, "master"},
		{Link{Name: "a", Type: Veth, Peer: "b", Master: "b"}, "master"},
		{Link{Name: "a", Type: Bridge, Master: "b"}, "master"},
		{Link{Name: "a", Type: Tun, Master: "b"}, "master"},
		{Link{Name: "a", Adopt: true}, "adopt"},
	} {
		_, err := c.row.Normalized()
		var field *reconciler.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%+v: error %v, expected one about %s", c.row, err, c.field)
		}
	}
}

func TestRightRowsAreLeftAsTheyAre(t *testing.T) {
	for _, row := range []Link{
		{Name: "fifteen-letters", Up: true},
		{Name: "eth0.100", MTU: 68},
		{Name: "a", Type: Veth, Peer: "b"},
		{Name: "a", Type: Bridge, MTU: 9000},
		{Name: "a", Type: Tun, Adopt: true},
		{Name: "a", MAC: "02:00:00:00:0a:01", Master: "b"},
	} {
		if normalized, err := row.Normalized(); err != nil || normalized != row {
			t.Errorf("%+v becomes %+v, %v", row, normalized, err)
		}
		var key Key
		text, err := row.Key().MarshalText()
		if err != nil || key.UnmarshalText(text) != nil || key != row.Key() {
			t.Errorf("key %q, %v, comes back as %q", text, err, key)
		}
	}
	if row, err := (Link{Name: "a", MAC: "02-00-00-00-0A-01"}).Normalized(); err != nil || row.MAC != "02:00:00:00:0a:01" {
		t.Errorf("the address becomes %q, %v", row.MAC, err)
	}
	var key Key
	if err := key.UnmarshalText([]byte("a/b")); err == nil {
		t.Error("a key with a slash is accepted")
	}
}

func TestSchemaMakesATable(t *testing.T) {
	if _, err := statedb.NewTable(statedb.New(), Schema()); err != nil {
		t.Fatal(err)
	}
	if !Default().Up {
		t.Error("links are not up by default")
	}
}
