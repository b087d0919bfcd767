package file

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// on returns a filter that keeps the routes of some devices.
func on(devices ...string) func(route) bool {
	return func(r route) bool {
		for _, d := range devices {
			if r.Device == d {
				return true
			}
		}
		return false
	}
}

// filtered runs a test with a filter of routes in the configuration.
func filtered(t *testing.T, files map[string]string, filter func(route) bool, test func(t *testing.T, h *harness)) {
	t.Helper()
	configured(t, files, func(r *KindConfig[route], _ *KindConfig[*set]) { r.Filter = filter }, test)
}

func configured(
	t *testing.T, files map[string]string, configure func(*KindConfig[route], *KindConfig[*set]), test func(t *testing.T, h *harness),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.configure = configure
		test(t, newHarnessOf(t, f, files))
	})
}

// setFilter sets the filter of routes, and looks.
func (h *harness) setFilter(filter func(route) bool) {
	h.t.Helper()
	h.must(SetFilter(h.source, "route", filter))
	h.settle()
}

// wantChangedTo compares the rows that were written since wantChanges was called last, whatever
// was deleted.
func (h *harness) wantChangedTo(want ...string) {
	h.t.Helper()
	var got []string
	for c := range h.cursor.Next(h.db.ReadTxn()) {
		if c.Kind == statedb.Upsert {
			got = append(got, c.Object.Destination.String())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("written (-want +got):\n%s", diff)
	}
}

const netD = "10.4.0.0/16"

// mixed is a file with routes of two devices, and one with a third.
var mixed = map[string]string{
	"a.yaml": documents(routeTo(netA, "eth0"), routeTo(netB, "eth1")), "b.yaml": routeTo(netC, "eth0"), "c.yaml": routeTo(netD, "eth2"),
}

func TestDocumentsThatTheFilterDropsAreNotStored(t *testing.T) {
	filtered(t, mixed, on("eth1"), func(_ *testing.T, h *harness) {
		h.settle()
		h.wantRoutes(netB + " eth1")
		h.wantState(true, "")
		h.wantDocuments("a.yaml ok 2/1", "b.yaml ok 1/0", "c.yaml ok 1/0")
		h.write("b.yaml", documents(routeTo(netC, "eth0"), routeTo(netD, "eth1")))
		h.settle()
		h.wantRoutes(netB+" eth1", netD+" eth1")
	})
}

func TestTransformedRowsAreStored(t *testing.T) {
	var filtered []string
	configured(t, mixed, func(r *KindConfig[route], _ *KindConfig[*set]) {
		r.Filter = func(r route) bool {
			filtered = append(filtered, r.Device)
			return r.Device != "eth2"
		}
		r.Transform = func(r route) (route, error) {
			if !r.Up {
				return r, errors.New("the default is missing")
			}
			r.Device = strings.ToUpper(r.Device)
			return r, nil
		}
	}, func(t *testing.T, h *harness) {
		h.settle()
		h.wantRoutes(netA+" ETH0", netB+" ETH1", netC+" ETH0")
		// The filter gets the rows as they are before.
		if diff := cmp.Diff([]string{"eth0", "eth1", "eth0", "eth2"}, filtered); diff != "" {
			t.Error(diff)
		}
	})
}

// Two documents may become rows with one key, or rows with the same key different ones.
func TestTheKeyOfATransformedRowCounts(t *testing.T) {
	configured(t, map[string]string{
		"a.yaml": "kind: set\nname: one\nteam: x\n", "b.yaml": "kind: set\nname: one\nteam: y\n", "c.yaml": "kind: set\nname: x/one\n",
	}, func(_ *KindConfig[route], s *KindConfig[*set]) {
		s.Transform = func(s *set) (*set, error) {
			c := *s
			c.Name = strings.TrimPrefix(c.Team+"/"+c.Name, "/")
			return &c, nil
		}
	}, func(t *testing.T, h *harness) {
		h.settle()
		var got []string
		for s := range h.sets.All(h.db.ReadTxn()) {
			got = append(got, s.Name)
		}
		if diff := cmp.Diff([]string{"y/one"}, got); diff != "" {
			t.Error(diff)
		}
		h.wantDocuments(
			`a.yaml duplicate 1/0: a.yaml:1:1: set "x/one" is also declared at c.yaml:1:1; neither takes effect`, "b.yaml ok 1/1",
			`c.yaml duplicate 1/0: c.yaml:1:1: set "x/one" is also declared at a.yaml:1:1; neither takes effect`)
	})
}

func TestErrorsOfFilterAndTransformNameTheirPlace(t *testing.T) {
	wrong := func(field string) error {
		return &reconciler.FieldError{Field: field, Err: errors.New("found something else")}
	}
	for name, test := range map[string]struct {
		configure func(*KindConfig[route], *KindConfig[*set])
		want      []string
	}{
		"field": {
			func(r *KindConfig[route], _ *KindConfig[*set]) {
				r.Transform = func(r route) (route, error) { return r, errors.Join(wrong("device"), wrong("gateway")) }
			},
			[]string{`f.yaml:3:9: field "device": found something else`, `f.yaml:1:1: field "gateway": found something else`},
		},
		"document": {
			func(r *KindConfig[route], _ *KindConfig[*set]) {
				r.Transform = func(r route) (route, error) { return r, errors.New("no") }
			},
			[]string{`f.yaml:1:1: no`},
		},
		"result that is not accepted": {
			func(r *KindConfig[route], _ *KindConfig[*set]) {
				r.Transform = func(r route) (route, error) { r.Metric = 5000; return r, nil }
			},
			[]string{`f.yaml:1:1: field "metric": found more than 1000`},
		},
		"panic of a transformation": {
			func(r *KindConfig[route], _ *KindConfig[*set]) {
				r.Transform = func(route) (route, error) { panic("lost") }
			},
			[]string{`f.yaml:1:1: the transformation of its kind has panicked: lost`},
		},
		"panic of a filter": {
			func(r *KindConfig[route], _ *KindConfig[*set]) { r.Filter = func(route) bool { panic("lost") } },
			[]string{`f.yaml:1:1: the filter of its kind has panicked: lost`},
		},
		"nil": {
			func(_ *KindConfig[route], s *KindConfig[*set]) {
				s.Transform = func(*set) (*set, error) { return nil, nil }
			},
			[]string{`f.yaml:5:1: the transformation of kind "set" has returned nil`},
		},
		"none for what is dropped": {
			func(r *KindConfig[route], _ *KindConfig[*set]) {
				r.Filter = on("eth1")
				r.Transform = func(r route) (route, error) { return r, errors.New("no") }
			}, nil,
		},
		"bad document that would be dropped": {
			func(r *KindConfig[route], s *KindConfig[*set]) {
				r.Filter, s.Filter = func(route) bool { return false }, func(*set) bool { return false }
				r.Normalized = func(r route) (route, error) { return r, wrong("destination") }
			},
			[]string{`f.yaml:2:14: field "destination": found something else`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.configure = test.configure
			c := f.parser(t).parse("f.yaml", []byte(documents(routeTo(netA, "eth0"), "kind: set\nname: a\n")))
			var got []string
			for _, p := range c.problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAChangedFilterReevaluatesWhatIsLoaded(t *testing.T) {
	filtered(t, mixed, on("eth0"), func(_ *testing.T, h *harness) {
		h.settle()
		h.wantChanges("+"+netA, "+"+netC)
		h.setFilter(on("eth0", "eth1"))
		h.wantChanges("+" + netB)
		h.setFilter(on("eth1", "eth2"))
		h.wantRoutes(netB+" eth1", netD+" eth2")
		h.wantChangedTo(netD)
		h.setFilter(nil)
		h.wantChanges("+"+netA, "+"+netC)
		h.wantState(true, "")
		h.wantDocuments("a.yaml ok 2/2", "b.yaml ok 1/1", "c.yaml ok 1/1")
		h.settle()
		h.wantChanges()
	})
}

// What a filter depends on may change; setting it again evaluates it again.
func TestAFilterThatIsSetAgainIsEvaluatedAgain(t *testing.T) {
	bubble(t, mixed, func(_ *testing.T, h *harness) {
		device := "eth0"
		keep := func(r route) bool { return r.Device == device }
		h.setFilter(keep)
		h.wantRoutes(netA+" eth0", netC+" eth0")
		device = "eth2"
		h.setFilter(keep)
		h.wantRoutes(netD + " eth2")
	})
}

// Rows that cannot be compared would be taken for changed if they were written.
func TestRowsThatBothFiltersKeepAreNotWritten(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": "kind: set\nname: a\n---\nkind: set\nname: b\n---\nkind: set\nname: c\n"}, func(t *testing.T, h *harness) {
		h.settle()
		cursor := h.sets.Changes(h.sets.Revision(h.db.ReadTxn()))
		defer cursor.Close()
		var got []string
		for _, dropped := range []string{"a", "c", "none"} {
			h.must(SetFilter(h.source, "set", func(s *set) bool { return s.Name != dropped }))
			h.settle()
			for c := range cursor.Next(h.db.ReadTxn()) {
				got = append(got, fmt.Sprintf("%s: %v %s", dropped, c.Kind == statedb.Delete, c.Object.Name))
			}
		}
		if diff := cmp.Diff([]string{"a: true a", "c: true c", "c: false a", "none: false c"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOnlyFilesWithDocumentsOfTheKindAreParsedAgain(t *testing.T) {
	bubble(t, map[string]string{
		"a.yaml": routeTo(netA, "eth0"), "b.yaml": "kind: set\nname: a\n", "c.yaml": "kind: set\nname: b\n---\n" + routeTo(netB, "eth1"),
	}, func(t *testing.T, h *harness) {
		h.settle()
		before := map[string]*content{}
		for path, f := range h.source.files {
			before[path] = f.now
		}
		h.setFilter(on("eth0"))
		for name, want := range map[string]bool{"a.yaml": true, "b.yaml": false, "c.yaml": true} {
			if again := h.source.files[h.path(name)].now != before[h.path(name)]; again != want {
				t.Errorf("%s was parsed again: %t", name, again)
			}
		}
		h.look()
		after := h.source.files[h.path("a.yaml")].now
		if h.look(); h.source.files[h.path("a.yaml")].now != after {
			t.Error("a.yaml is parsed at each look")
		}
	})
}

func TestAFilterSetBeforeTheFirstLookAppliesToIt(t *testing.T) {
	bubble(t, mixed, func(_ *testing.T, h *harness) {
		h.must(SetFilter(h.source, "route", on("eth2")))
		h.settle()
		h.wantChanges("+" + netD)
		h.wantState(true, "")
	})
}

func TestFiltersOfOtherRowsAreRefused(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		for want, err := range map[string]error{
			`source of documents: there is no kind "rout"; did you mean "route"? The kinds are: route, set`:   SetFilter(h.source, "rout", on()),
			`kind "set": the filter is for rows of type file.route, which is not the row type of the kind`:    SetFilter(h.source, "set", on()),
			`kind "route": the filter is for rows of type *file.route, which is not the row type of the kind`: SetFilter(h.source, "route", func(*route) bool { return true }),
			`source of documents: there is no kind ""; the kinds are: route, set`:                             SetFilter[route](h.source, "", nil),
		} {
			if err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		}
	})
}

func TestReadOfASourceUsesTheFilterThatIsInForce(t *testing.T) {
	filtered(t, mixed, on("eth0"), func(t *testing.T, h *harness) {
		var files []File
		for name, text := range mixed {
			files = append(files, File{Path: name, Data: []byte(text)})
		}
		before := len(h.source.Read(files).Rows)
		if err := SetFilter[route](h.source, "route", nil); err != nil {
			t.Fatal(err)
		}
		if all := len(h.source.Read(files).Rows); before == 0 || all <= before {
			t.Errorf("%d rows with a filter, %d without", before, all)
		}
	})
}
