package rtnl

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestScopesAsText(t *testing.T) {
	for text, number := range map[string]uint8{"global": 0, "200": 200, "link": 253, "host": 254, "255": 255} {
		var s Scope
		if err := s.UnmarshalText([]byte(text)); err != nil || s != ScopeOf(number) || s.String() != text || s.Number(7) != number {
			t.Errorf("%q is %v, number %d, %v", text, s, s.Number(7), err)
		}
	}
	for text, want := range map[string]Scope{"0": GlobalScope, "253": LinkScope, "254": HostScope, "": {}} {
		var s Scope
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q is %v, %v, expected %v", text, s, err, want)
		}
	}
	for _, text := range []string{"256", "-1", "universe"} {
		var s Scope
		if err := s.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "expected global, link, host or a number from 0 to 255") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if none := (Scope{}); !none.IsZero() || none.Number(9) != 9 || none.String() != "" || GlobalScope.IsZero() {
		t.Errorf("no scope: %+v", none)
	}
	type row struct {
		Scope Scope `json:"scope,omitzero"`
	}
	for want, r := range map[string]row{`{}`: {}, `{"scope":"global"}`: {GlobalScope}} {
		text, err := json.Marshal(r)
		var back row
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || string(text) != want || back != r {
			t.Errorf("%+v is %s and comes back as %+v, %v", r, text, back, err)
		}
	}
}
