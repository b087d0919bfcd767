package immutable_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/statedb/immutable"
)

func roundTrip(t *testing.T, from, into any) {
	t.Helper()
	data, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
}

// hop has a text form of its own and is a number all the same.
type hop uint8

func (h hop) MarshalText() ([]byte, error)     { return []byte(strings.Repeat("x", int(h))), nil }
func (h *hop) UnmarshalText(text []byte) error { *h = hop(len(text)); return nil }

func TestJSONForm(t *testing.T) {
	jsonForm(t, immutable.Map[string, int]{}.Set("b", 2).Set("a", 1), `{"a":1,"b":2}`)
	jsonForm(t, immutable.Map[int, []string]{}.Set(-1, nil).Set(10, []string{"x"}), `{"-1":null,"10":["x"]}`)
	jsonForm(t, immutable.Map[netip.Prefix, bool]{}.Set(netip.MustParsePrefix("10.0.0.0/8"), true), `{"10.0.0.0/8":true}`)
	jsonForm(t, immutable.Map[string, immutable.Set[uint8]]{}.Set(`"`, immutable.SetOf[uint8](2, 1)), `{"\"":[1,2]}`)
	jsonForm(t, immutable.Map[string, int]{}, `{}`)
	jsonForm(t, immutable.SetOf(true, false), `[false,true]`)
	jsonForm(t, immutable.SetOf("a", ""), `["","a"]`)
	jsonForm(t, immutable.SetOf([4]byte{1, 2}), `["01020000"]`)
	jsonForm(t, immutable.SetOf(hop(2), hop(1)), `["x","xx"]`)
	jsonForm(t, immutable.Set[int]{}, `[]`)
	jsonForm(t, struct {
		M immutable.Map[string, int] `json:"m,omitzero"`
		S immutable.Set[string]      `json:"s,omitzero"`
	}{}, `{}`)
}

func jsonForm[T any](t *testing.T, value T, want string) {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil || string(data) != want {
		t.Errorf("%T as JSON: %s, %v; expected %s", value, data, err, want)
	}
	var back T
	if err := json.Unmarshal(data, &back); err != nil {
		t.Errorf("%s does not read back: %v", data, err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != want {
		t.Errorf("%s reads back as %s, %v", want, again, err)
	}
}

func TestKeysThatJSONCannotHoldAreRefused(t *testing.T) {
	for _, value := range []any{
		immutable.Map[string, int]{}.Set("\xff", 1),
		immutable.SetOf("\xff"),
		immutable.SetOf(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)),
		immutable.Map[string, func()]{}.Set("a", nil),
	} {
		if data, err := json.Marshal(value); err == nil {
			t.Errorf("%T became %s", value, data)
		}
	}
}

func TestBadJSONIsRefusedAndChangesNothing(t *testing.T) {
	for text, message := range map[string]string{
		`[]`:                `found [, expected an object`,
		`1`:                 `found 1, expected an object`,
		`{"x":1}`:           `key "x": "x" is not a whole number`,
		`{"1":"a"}`:         `value of key "1"`,
		`{"1":{"a":[1,2]}}`: `value of key "1"`,
		`{"1":1,"1":2}`:     `duplicate key "1"`,
	} {
		m := immutable.Map[int, int]{}.Set(7, 7)
		if err := json.Unmarshal([]byte(text), &m); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: error %v, expected one with %q", text, err, message)
		}
		if m.String() != "7=7" {
			t.Errorf("%s made the map %v", text, m)
		}
	}
	for _, text := range []string{`{}`, `["x"]`, `[1.5]`, `[null]`, `[[1]]`} {
		s := immutable.SetOf(7)
		if err := json.Unmarshal([]byte(text), &s); err == nil || s.String() != "7" {
			t.Errorf("%s: set %v, error %v", text, s, err)
		}
	}
}

func TestNullIsEmpty(t *testing.T) {
	m, s := immutable.Map[string, int]{}.Set("a", 1), immutable.SetOf(1)
	for _, into := range []any{&m, &s} {
		if err := json.Unmarshal([]byte(`null`), into); err != nil {
			t.Error(err)
		}
	}
	if !m.IsZero() || !s.IsZero() {
		t.Errorf("null made %v and %v", m, s)
	}
}
