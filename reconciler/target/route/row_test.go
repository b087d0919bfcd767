package route

import (
	"encoding/json"
	"errors"
	"net/netip"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func destination(t *testing.T, text string) Destination {
	t.Helper()
	d, err := ParseDestination(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNormalizedFillsInWhatFollows(t *testing.T) {
	for _, c := range []struct {
		name, destination string
		row               Route
		key               string
		family            Family
	}{
		{"a prefix", "10.1.0.0/16", Route{Gateway: gateway4}, "10.1.0.0/16", Inet},
		{"a lone address", "10.1.0.1", Route{Gateway: gateway4}, "10.1.0.1/32", Inet},
		{"IPv6 has a metric", "2001:db8::/32", Route{Device: "e0"}, "2001:db8::/32", Inet6},
		{"the metric that IPv6 has anyway", "2001:db8::/32", Route{Device: "e0", Metric: 1024}, "2001:db8::/32", Inet6},
		{"metric", "10.1.0.0/16", Route{Device: "e0", Metric: 1024}, "10.1.0.0/16 metric 1024", Inet},
		{"table", "10.1.0.0/16", Route{Device: "e0", Table: 100, Metric: 7}, "10.1.0.0/16 table 100 metric 7", Inet},
		{"table with a name", "10.1.0.0/16", Route{Device: "e0", Table: LocalTable}, "10.1.0.0/16 table local", Inet},
		{"default by gateway", "default", Route{Gateway: gateway4}, "default", Inet},
		{"default by IPv6 gateway", "default", Route{Gateway: gateway6}, "default inet6", Inet6},
		{"default by source", "default", Route{Device: "e0", Source: gateway6}, "default inet6", Inet6},
		{"default by family", "default", Route{Device: "e0", Family: Inet6}, "default inet6", Inet6},
		{"default by device alone", "default", Route{Device: "e0"}, "default", Inet},
		{"default of IPv6 as a prefix", "::/0", Route{Device: "e0", Metric: 5}, "default inet6 metric 5", Inet6},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.row.Destination = destination(t, c.destination)
			row, err := c.row.Normalized()
			if err != nil || row.Family != c.family || row.Table == 0 {
				t.Fatalf("Normalized = %+v, %v", row, err)
			}
			if again, err := row.Normalized(); err != nil || again != row {
				t.Errorf("Normalized again = %+v, %v", again, err)
			}
			if got := row.Key().String(); got != c.key || c.row.Key() != row.Key() {
				t.Errorf("key %q and before %q, expected %q", got, c.row.Key(), c.key)
			}
			var key Key
			if err := key.UnmarshalText([]byte(c.key)); err != nil || key != row.Key() {
				t.Errorf("key %q comes back as %q, %v", c.key, key, err)
			}
		})
	}
}

func TestWrongFieldsAreNamed(t *testing.T) {
	for _, c := range []struct {
		row   Route
		field string
	}{
		{Route{Gateway: gateway4}, "destination"},
		{Route{Destination: to("10.1.0.1/16"), Gateway: gateway4}, "destination"},
		{Route{Destination: to("::ffff:10.0.0.0/104"), Gateway: gateway6}, "destination"},
		{Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Family: Inet6}, "family"},
		{Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Family: "ipv4"}, "family"},
		{Route{Destination: to("10.1.0.0/16"), Gateway: gateway6}, "gateway"},
		{Route{Destination: to("10.1.0.0/16"), Gateway: netip.IPv4Unspecified()}, "gateway"},
		{Route{Destination: to("fd00::/8"), Gateway: netip.MustParseAddr("fe80::1%eth0"), Device: "e0"}, "gateway"},
		{Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Source: gateway6}, "source"},
		{Route{Destination: to("10.1.0.0/16")}, "device"},
		{Route{Destination: to("10.1.0.0/16"), Device: "a b"}, "device"},
	} {
		_, err := c.row.Normalized()
		var field *reconciler.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%+v: error %v, expected one about %s", c.row, err, c.field)
		}
	}
	if _, err := (Route{}).Normalized(); err == nil || (Route{}).Key().Destination.IsValid() {
		t.Errorf("an empty row: %v, key %v", err, (Route{}).Key())
	}
}

func TestKeysInOtherWords(t *testing.T) {
	for text, want := range map[string]string{
		"0.0.0.0/0":                         "default",
		"default inet":                      "default",
		"10.0.0.0/8 metric 5 table main":    "10.0.0.0/8 metric 5",
		"10.0.0.0/8  table 254":             "10.0.0.0/8",
		"2001:db8::/32 metric 0":            "2001:db8::/32",
		"10.0.0.1 table 4294967295":         "10.0.0.1/32 table 4294967295",
		"default table default metric 0":    "default table default",
		"default metric 4294967295 table 1": "default table 1 metric 4294967295",
	} {
		var key Key
		if err := key.UnmarshalText([]byte(text)); err != nil || key.String() != want {
			t.Errorf("key %q is %q, %v, expected %q", text, key, err, want)
		}
	}
	for _, text := range []string{"", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/8 table", "10.0.0.0/8 table blue", "10.0.0.0/8 table 0", "10.0.0.0/8 metric -1", "10.0.0.0/8 via 1.2.3.4"} {
		var key Key
		if err := key.UnmarshalText([]byte(text)); (err == nil) != (text == "10.0.0.0") {
			t.Errorf("key %q is %q, %v", text, key, err)
		}
	}
}

func TestRowsComeBackFromJSON(t *testing.T) {
	row := Route{Destination: destination(t, "default"), Gateway: gateway4, Table: MainTable, Metric: 7}
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"destination":"default","gateway":"192.0.2.99","metric":7,"table":"main","status":{"kind":"pending"}}`
	if string(text) != want {
		t.Errorf("JSON\n%s\nexpected\n%s", text, want)
	}
	var back Route
	if err := json.Unmarshal(text, &back); err != nil || back != row {
		t.Errorf("comes back as %+v, %v", back, err)
	}
}

func TestSchemaMakesATable(t *testing.T) {
	if _, err := statedb.NewTable(statedb.New(), Schema()); err != nil {
		t.Fatal(err)
	}
	if Default().Table != MainTable {
		t.Error("the default table is not main")
	}
}
