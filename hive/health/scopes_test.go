package health_test

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/statehive/statehive/hive/health"
)

// open opens a scope that reports that it is OK.
func open(t *testing.T, above health.Health, name string) health.Health {
	t.Helper()
	h, err := above.NewScope(name)
	if err != nil {
		t.Fatal(err)
	}
	h.OK(name)
	return h
}

// wantIDs compares the ids of all rows, in any order.
func (f fixture) wantIDs(want ...string) {
	f.Helper()
	got := f.ids()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.Errorf("got %q, want %q", got, want)
	}
}

func TestScopeSurvivesTheEndOfOneWhoseNameItBeginsWith(t *testing.T) {
	r := newFixture(t)
	m := r.scope("m")
	a := open(t, m, "a")
	open(t, a, "below")
	dotted := open(t, m, "a.b")
	nested, err := r.registry.Scope("m.nested")
	if err != nil {
		t.Fatal(err)
	}
	nested.OK("of a module within m")
	a.Close()
	r.wantIDs(`m."a.b"`, "m.nested")
	dotted.OK("still there")
	if again := open(t, m, "a"); again == nil {
		t.Error("the name is not free")
	}
	m.Close()
	r.wantIDs("m.nested")
}

func TestNamesWithDotsCannotCollide(t *testing.T) {
	r := newFixture(t)
	m := r.scope("m")
	open(t, open(t, m, "a"), "b")
	for _, name := range []string{"a.b", `"a`, `"a.b"`, `a\.b`, "a\n.b"} {
		open(t, m, name)
	}
	r.wantIDs("m.a", "m.a.b", `m."a.b"`, `m."\"a"`, `m."\"a.b\""`, `m."a\\.b"`, `m."a\n.b"`)
	if _, err := m.NewScope("a.b"); !errors.Is(err, health.ErrDuplicate) {
		t.Errorf("got %v", err)
	}
}

func TestManyScopesAreClosedAtTheCostOfEach(t *testing.T) {
	for name, end := range map[string]func(m health.Health, all []health.Health){
		"one by one": func(_ health.Health, all []health.Health) {
			for _, h := range all {
				h.Close()
			}
		},
		"all at once": func(m health.Health, _ []health.Health) { m.Close() },
	} {
		least := math.Inf(1)                               // times that closing takes as long as opening
		for tries := 0; tries < 5 && least > 10; tries++ { // the machine may do something else meanwhile
			r := newFixture(t)
			m := r.scope("m")
			all := make([]health.Health, 16_000)
			began := time.Now()
			for i := range all {
				all[i] = open(t, m, strconv.Itoa(i))
			}
			opened := time.Now()
			end(m, all)
			least = min(least, float64(time.Since(opened))/float64(opened.Sub(began)))
			r.wantIDs()
		}
		if least > 10 {
			t.Errorf("%s: closing takes %.0f times as long as opening", name, least)
		}
	}
}
