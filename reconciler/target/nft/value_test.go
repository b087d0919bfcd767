package nft

import (
	"encoding"
	"testing"
)

func TestValuesAreText(t *testing.T) {
	type value interface {
		encoding.TextUnmarshaler
		encoding.TextMarshaler
	}
	for _, c := range []struct {
		value value
		in    string
		out   string // empty: refused
	}{
		{&Priority{}, "filter", "filter"},
		{&Priority{}, "0", "filter"},
		{&Priority{}, "-5", "-5"},
		{&Priority{}, "first", ""},
		{&Priority{}, "9999999999", ""},
		{new(Protocol), "tcp", "tcp"},
		{new(Protocol), "6", "tcp"},
		{new(Protocol), "47", "47"},
		{new(Protocol), "0", ""},
		{new(Protocol), "256", ""},
		{new(Protocol), "gre", ""},
		{&Addresses{}, "192.0.2.1", "192.0.2.1"},
		{&Addresses{}, "192.0.2.1/32", "192.0.2.1"},
		{&Addresses{}, "10.0.0.0/8", "10.0.0.0/8"},
		{&Addresses{}, "@hosts", "@hosts"},
		{&Addresses{}, "@", ""},
		{&Addresses{}, "10.0.0.1/8", ""},
		{&Addresses{}, "example.com", ""},
		{&Addresses{}, "::ffff:1.2.3.4", ""},
		{&Ports{}, "22", "22"},
		{&Ports{}, "0", "0"},
		{&Ports{}, "1000-2000", "1000-2000"},
		{&Ports{}, "5-5", "5"},
		{&Ports{}, "@services", "@services"},
		{&Ports{}, "70000", ""},
		{&Ports{}, "022", ""},
		{&Ports{}, "9-1", ""},
		{&Ports{}, "1-2-3", ""},
		{&Ports{}, "-", ""},
		{&Ports{}, "ssh", ""},
		{&Mark{}, "16", "0x10"},
		{&Mark{}, "0", "0x0"},
		{&Mark{}, "0x10/0xff", "0x10/0xff"},
		{&Mark{}, "0x10/0xf", ""},
		{&Mark{}, "1/0", ""},
		{&Mark{}, "010", ""},
		{&Mark{}, "1/07", ""},
		{&Mark{}, "1_0", ""},
		{&Mark{}, "0x100000000", ""},
		{&Translation{}, "192.0.2.1", "192.0.2.1"},
		{&Translation{}, "192.0.2.1:80", "192.0.2.1:80"},
		{&Translation{}, "2001:db8::1", "2001:db8::1"},
		{&Translation{}, "[2001:db8::1]:80", "[2001:db8::1]:80"},
		{&Translation{}, "192.0.2.1:0", ""},
		{&Translation{}, "0.0.0.0", ""},
		{&Translation{}, "192.0.2.0/24", ""},
		{&Translation{}, "fe80::1%eth0", ""},
	} {
		err := c.value.UnmarshalText([]byte(c.in))
		if c.out == "" {
			if err == nil {
				t.Errorf("%T: %q is taken", c.value, c.in)
			}
			continue
		}
		text, marshalErr := c.value.MarshalText()
		if err != nil || marshalErr != nil || string(text) != c.out {
			t.Errorf("%T: %q becomes %q, %v, %v, expected %q", c.value, c.in, text, err, marshalErr, c.out)
		}
	}
}
