package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"
)

var setNames = []string{"", "a", "aa", "b", "dns", "route", "z"}

func drawStatus(t *rapid.T) Status {
	now := time.Unix(0, rapid.Int64Range(1, 1<<60).Draw(t, "since"))
	switch rapid.SampledFrom([]Kind{Pending, Done, Error}).Draw(t, "kind") {
	case Done:
		return Status{}.After(nil, now)
	case Error:
		return Status{}.After(errors.New(rapid.StringMatching(`[a-z: {}"#-]{1,9}`).Draw(t, "error")), now)
	case Pending:
	}
	return Status{}
}

func contents(s Set) map[string]Status { return maps.Collect(s.All()) }

func texts(s Set) map[string]string {
	named := map[string]string{}
	for name, status := range s.All() {
		named[name] = fmt.Sprint(status, " ", status.since)
	}
	return named
}

func TestStatusSetIsAMapWhoseOldVersionsStay(t *testing.T) {
	type version struct {
		set  Set
		want map[string]Status
	}
	rapid.Check(t, func(t *rapid.T) {
		versions := []version{{want: map[string]Status{}}}
		for range rapid.IntRange(0, 20).Draw(t, "writes") {
			from := rapid.SampledFrom(versions).Draw(t, "from")
			name, status := rapid.SampledFrom(setNames).Draw(t, "name"), drawStatus(t)
			next := version{from.set.With(name, status), maps.Clone(from.want)}
			if next.want[name] = status; status == (Status{}) {
				delete(next.want, name)
			}
			if same := from.set.Get(name) == status; same != (next.set == from.set) {
				t.Fatalf("a write that changes something: %t; the set is the same: %t", !same, same)
			}
			versions = append(versions, next)
		}
		for _, v := range versions {
			if got := contents(v.set); !maps.Equal(v.want, got) || (v.set == Set{}) != (len(v.want) == 0) {
				t.Fatalf("set %v, want %v", v.set, v.want)
			}
			var names []string
			for name := range v.set.All() {
				names = append(names, name)
			}
			if !slices.IsSorted(names) {
				t.Fatalf("names %q are not sorted", names)
			}
			for _, name := range setNames {
				if got := v.set.Get(name); got != v.want[name] {
					t.Fatalf("status %q is %v, want %v", name, got, v.want[name])
				}
			}
		}
	})
}

func TestStatusSetSurvivesJSONAndYAML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set Set
		for range rapid.IntRange(0, 5).Draw(t, "names") {
			set = set.With(rapid.SampledFrom(setNames).Draw(t, "name"), drawStatus(t))
		}
		fromJSON, fromYAML := Set{}.With("old", Status{kind: Done}), Set{}.With("old", Status{kind: Done})
		inJSON, err := json.Marshal(set)
		if err = errors.Join(err, json.Unmarshal(inJSON, &fromJSON)); err != nil || !maps.Equal(texts(set), texts(fromJSON)) {
			t.Fatalf("%v came back from %s as %v: %v", set, inJSON, fromJSON, err)
		}
		inYAML, err := yaml.Marshal(set)
		if err = errors.Join(err, yaml.Unmarshal(inYAML, &fromYAML)); err != nil || !maps.Equal(texts(set), texts(fromYAML)) {
			t.Fatalf("%v came back from %s as %v: %v", set, inYAML, fromYAML, err)
		}
	})
}

func TestStatusSurvivesYAML(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_900_001, time.UTC)
	for _, want := range []Status{
		{},
		Status{}.After(nil, at),
		Status{}.After(errors.New("no: 'such' \"thing\"\n- x"), at),
	} {
		text, err := yaml.Marshal(map[string]Status{"status": want})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]Status{}
		if err := yaml.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if back := got["status"]; back.String() != want.String() || back.since != want.since || back.kind != want.kind {
			t.Errorf("%v came back from %s as %v", want, text, back)
		}
	}
}

func TestStatusesInYAMLReadLikeThoseInJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	set := Set{}.With("b", Status{}.After(errors.New("boom"), at)).With("a", Status{}.After(nil, at))
	text, err := yaml.Marshal(set)
	const want = `a:
    kind: done
    since: 2026-01-02T03:04:05.000006Z
b:
    kind: error
    since: 2026-01-02T03:04:05.000006Z
    error: boom
`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v, want\n%s", text, err, want)
	}
	if got := set.String(); got != "a: done, b: error: boom" {
		t.Errorf("text %q", got)
	}
	if got := (Set{}).String(); got != "pending" {
		t.Errorf("text of the zero value %q", got)
	}
}

func TestStatusSetRefusesWhatItDoesNotKnow(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": {"kind": "finished"}}`:                        `"finished" is unknown`,
		`{"a": {"kind": "done"}, "b": {"kind": ""}}`:         `"" is unknown`,
		`{"a": {"kind": "done"}, "a": {"kind": "done"}}`:     `"a"`,
		`{"a": {"kind": "pending"}, "a": {"kind": "error"}}`: `"a"`,
		`[]`:                           "",
		`"done"`:                       "",
		`{"a": "done"}`:                "",
		`{"a": {"kind": "done"}`:       "",
		`{"a": {"since": "tomorrow"}}`: "",
	} {
		for format, unmarshal := range map[string]func([]byte, any) error{
			"JSON": json.Unmarshal,
			"YAML": yaml.Unmarshal,
		} {
			set := Set{}.With("old", Status{kind: Done})
			before := set
			err := unmarshal([]byte(text), &set)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: error %v, want one with %s", format, text, err, want)
			}
			if set != before {
				t.Errorf("%s %s: the set has become %v", format, text, set)
			}
		}
	}
}

func TestUnknownKindIsNotWritten(t *testing.T) {
	set := Set{}.With("a", Status{kind: 7})
	if text, err := json.Marshal(set); err == nil {
		t.Errorf("JSON %s", text)
	}
	if text, err := yaml.Marshal(set); err == nil {
		t.Errorf("YAML %s", text)
	}
}

func TestStatusSetIsAsSmallAsAPointer(t *testing.T) {
	if size := unsafe.Sizeof(Set{}); size > unsafe.Sizeof(uintptr(0)) {
		t.Errorf("%d bytes", size)
	}
	set := Set{}.With("a", Status{kind: Done}).With("b", Status{kind: Done})
	if n := testing.AllocsPerRun(100, func() { set.With("b", Status{kind: Error}) }); n > 2 {
		t.Errorf("%v allocations for a status behind one other", n)
	}
	if n := testing.AllocsPerRun(100, func() { set.Get("b") }); n != 0 {
		t.Errorf("%v allocations to read", n)
	}
}
