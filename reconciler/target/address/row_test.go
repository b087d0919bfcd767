package address

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func TestWrongFieldsAreNamed(t *testing.T) {
	for _, c := range []struct {
		row   Address
		field string
	}{
		{Address{Address: netip.MustParsePrefix("10.0.0.1/8")}, "device"},
		{row("a b", "10.0.0.1/8"), "device"},
		{Address{Device: "a"}, "address"},
		{row("a", "::ffff:10.0.0.1/120"), "address"},
		{row("a", "0.0.0.0/0"), "address"},
		{row("a", "ff02::1/64"), "address"},
	} {
		_, err := c.row.Normalized()
		var field *reconciler.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%+v: error %v, expected one about %s", c.row, err, c.field)
		}
	}
}

func TestKeysComeBackFromTheirText(t *testing.T) {
	for _, want := range []Address{row("eth0", "10.0.0.5/24"), row("eth0.100", "2001:db8::5/64")} {
		if normalized, err := want.Normalized(); err != nil || normalized != want {
			t.Errorf("%+v becomes %+v, %v", want, normalized, err)
		}
		text, err := want.Key().MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var key Key
		if err := key.UnmarshalText(text); err != nil || key != want.Key() {
			t.Errorf("key %q comes back as %v, %v", text, key, err)
		}
	}
	for _, text := range []string{"", "eth0", "eth0 10.0.0.5", "eth0 10.0.0.5/24 x", "eth0 10.0.0.500/24"} {
		var key Key
		if err := key.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("key %q is accepted", text)
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
