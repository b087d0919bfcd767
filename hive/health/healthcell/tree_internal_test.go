package healthcell

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/statedb"
)

func TestHealthOfAModuleIsTheWorstOfItsParts(t *testing.T) {
	root := aggregate([]health.Status{
		{ID: "b", Level: health.Stopped},
		{ID: "a.job", Level: health.Degraded},
		{ID: "a", Level: health.OK},
		{ID: "c.x.y", Level: health.Stopped},
		{ID: "c.x.z", Level: health.OK},
	})
	var got []string
	var walk func(n *node)
	walk = func(n *node) {
		got = append(got, fmt.Sprintf("%s %v %d %t", n.ID, n.Level, n.Counts[health.OK], n.Own != nil))
		for _, c := range n.Below {
			walk(c)
		}
	}
	walk(root)
	want := []string{
		" Degraded 2 false", "a Degraded 1 true", "a.job Degraded 0 true", "b Stopped 0 true", "c OK 1 false", "c.x OK 1 false",
		"c.x.y Stopped 0 true", "c.x.z OK 1 true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if empty := aggregate(nil); empty.Level != 0 || len(empty.Below) > 0 {
		t.Errorf("got %+v", empty)
	}
}

func TestTreeHasNamesAsTheyWereGiven(t *testing.T) {
	db := statedb.New()
	r, err := health.NewRegistry(db, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Scope("m")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"eth0.100", "eth0", `say "a.b"`} {
		h, err := m.NewScope(name)
		if err != nil {
			t.Fatal(err)
		}
		h.OK(name)
	}
	var all []health.Status
	for s := range r.Table().All(db.ReadTxn()) {
		all = append(all, s)
	}
	tree := aggregate(all)
	var names []string
	for _, n := range tree.Below[0].Below {
		names = append(names, n.Name)
		if n.Own == nil || n.Own.ID != n.ID {
			t.Errorf("%q: %+v", n.ID, n.Own)
		}
	}
	if want := []string{"eth0", "eth0.100", `say "a.b"`}; !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
}

func TestScopeBesideAModuleOfItsNameIsAPartOfItsOwn(t *testing.T) {
	tree := aggregate([]health.Status{{ID: `a."b".c`, Level: health.Degraded}, {ID: "a.b", Level: health.OK}, {ID: `a."b"`, Level: health.OK}})
	below := tree.Below[0].Below
	if len(below) != 2 || below[0].ID != `a."b"` || below[0].Level != health.Degraded || below[1].ID != "a.b" || below[1].Level != health.OK {
		t.Errorf("got %+v", below)
	}
}
