package rule

import (
	"errors"
	"math"
	"net/netip"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/route"
)

func TestRowsAreCompleted(t *testing.T) {
	v4, v6 := prefix("10.0.0.0/8"), prefix("2001:db8::/32")
	for name, c := range map[string]struct{ row, want Rule }{
		"nothing but a priority": {Rule{Priority: 1}, Rule{Priority: 1, Action: Lookup, Family: route.Inet, Table: route.MainTable}},
		"IPv6 by its source": {
			Rule{Priority: 1, From: v6, Table: 5},
			Rule{Priority: 1, From: v6, Action: Lookup, Family: route.Inet6, Table: 5},
		},
		"IPv6 by its destination": {
			Rule{Priority: 1, To: v6, Action: Blackhole},
			Rule{Priority: 1, To: v6, Action: Blackhole, Family: route.Inet6},
		},
		"from everywhere, in IPv6": {
			Rule{Priority: 1, From: prefix("::/0"), Action: Prohibit},
			Rule{Priority: 1, Action: Prohibit, Family: route.Inet6},
		},
		"to everywhere": {
			Rule{Priority: 1, From: v4, To: prefix("0.0.0.0/0"), Action: Unreachable},
			Rule{Priority: 1, From: v4, Action: Unreachable, Family: route.Inet},
		},
		"the family given": {
			Rule{Priority: math.MaxUint32, Family: route.Inet6, In: "e0", Out: "fifteen-bytes15"},
			Rule{Priority: math.MaxUint32, Family: route.Inet6, In: "e0", Out: "fifteen-bytes15", Action: Lookup, Table: route.MainTable},
		},
	} {
		got, err := c.row.Normalized()
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, expected %+v", name, got, err, c.want)
		}
		if again, err := got.Normalized(); err != nil || again != got {
			t.Errorf("%s: normalized again %+v, %v", name, again, err)
		}
		if c.row.Key() != got.Key() {
			t.Errorf("%s: key %s, and %s when normalized", name, c.row.Key(), got.Key())
		}
	}
}

func TestBadRowsAreRefusedWithTheField(t *testing.T) {
	v4 := prefix("10.0.0.0/8")
	for _, c := range []struct {
		row         Rule
		field, text string
	}{
		{Rule{From: v4}, "priority", "it is missing or 0, expected a number from 1 to 4294967295: 0 is the priority of the kernel's own rule"},
		{Rule{Priority: 1, Family: "ipx"}, "family", `"ipx" is unknown, expected inet or inet6`},
		{Rule{Priority: 1, From: prefix("10.0.0.1/8")}, "from", "10.0.0.1/8 has bits set beyond its prefix length, expected 10.0.0.0/8"},
		{Rule{Priority: 1, Family: route.Inet6, From: v4}, "from", "10.0.0.0/8 is not of the rule's family, expected a prefix of inet6"},
		{Rule{Priority: 1, From: v4, To: prefix("::/0")}, "to", "::/0 is not of the rule's family, expected a prefix of inet"},
		{
			Rule{Priority: 1, To: netip.PrefixFrom(netip.MustParseAddr("::ffff:10.0.0.0"), 104)},
			"to",
			"::ffff:10.0.0.0/104 is an IPv4 prefix written as IPv6, expected a prefix, as 10.10.0.0/16",
		},
		{Rule{Priority: 1, Mark: Mark{0x10, 0xf}}, "mark", "0x10/0xf has bits that are not in its mask, expected 0x0/0xf"},
		{Rule{Priority: 1, Mark: Mark{Value: 1}}, "mark", "0x1/0 has a mask without bits, expected one with those that count"},
		{Rule{Priority: 1, In: "e 0"}, "in", `"e 0" is not the name of a link, expected one of at most 15 bytes, as eth0`},
		{Rule{Priority: 1, Out: "sixteen-bytes-16"}, "out", `"sixteen-bytes-16" is not the name of a link, expected one of at most 15 bytes, as eth0`},
		{Rule{Priority: 1, Action: "drop"}, "action", `"drop" is unknown, expected lookup, blackhole, unreachable or prohibit`},
		{Rule{Priority: 1, Action: Prohibit, Table: 100}, "table", "only a rule with the action lookup has a table: leave it out"},
	} {
		_, err := c.row.Normalized()
		var field *reconciler.FieldError
		if !errors.As(err, &field) || field.Field != c.field || field.Err.Error() != c.text {
			t.Errorf("%+v: error %v, expected %s: %s", c.row, err, c.field, c.text)
		}
	}
}

func TestMarksAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]Mark{
		"16":        {16, math.MaxUint32},
		"0x10":      {16, math.MaxUint32},
		"0":         {0, math.MaxUint32},
		"0x10/0xff": {16, 255},
		"0/1":       {0, 1},
	} {
		m, err := ParseMark(text)
		if err != nil || m != want {
			t.Errorf("%q is %+v, %v, expected %+v", text, m, err, want)
		}
		var again Mark
		if err := again.UnmarshalText([]byte(m.String())); err != nil || again != m {
			t.Errorf("%q is written as %q, and read as %+v, %v", text, m, again, err)
		}
	}
	for text, want := range map[string]string{
		"":            `"" is not a mark: "" is not a number of 32 bits, decimal or hexadecimal, expected a number or number/mask, as 16, 0x10 or 0x10/0xff`,
		"guests":      `"guests" is not a mark: "guests" is not a number of 32 bits, decimal or hexadecimal, expected a number or number/mask, as 16, 0x10 or 0x10/0xff`,
		"1/":          `"1/" is not a mark: "" is not a number of 32 bits, decimal or hexadecimal, expected a number or number/mask, as 16, 0x10 or 0x10/0xff`,
		"010":         `"010" is not a mark: "010" is not a number of 32 bits, decimal or hexadecimal, expected a number or number/mask, as 16, 0x10 or 0x10/0xff`,
		"0x100000000": `"0x100000000" is not a mark: "0x100000000" is not a number of 32 bits, decimal or hexadecimal, expected a number or number/mask, as 16, 0x10 or 0x10/0xff`,
		"0/0":         "0/0 has a mask without bits, expected one with those that count",
	} {
		if m, err := ParseMark(text); err == nil || err.Error() != want {
			t.Errorf("%q is %+v, error %v\nexpected %s", text, m, err, want)
		}
	}
}

func TestKeysSurviveTheirText(t *testing.T) {
	key := SeenKey{Key{route.Inet6, 100}, 2}
	var again SeenKey
	if err := again.UnmarshalText([]byte(key.String())); err != nil || again != key || key.String() != "inet6 100 #2" {
		t.Errorf("%q is read as %+v, %v", key, again, err)
	}
	for _, text := range []string{"", "100", "inet", "inet x", "ipx 100", "inet 100 #", "inet 4294967296 #1", "inet 100"} {
		if err := again.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as the key %+v of an observed rule", text, again)
		}
		var key Key
		if err := key.UnmarshalText([]byte(text)); (err == nil) != (text == "inet 100") {
			t.Errorf("%q is read as the key %+v, %v", text, key, err)
		}
	}
}
