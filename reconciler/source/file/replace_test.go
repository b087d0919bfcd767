package file

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/statedb"
)

// wantReplaced compares what has taken the place of routes, as "was by".
func (h *harness) wantReplaced(want ...string) {
	h.t.Helper()
	for _, pair := range want {
		was, by, _ := strings.Cut(pair, " ")
		var got []string
		if r := h.source.ReplacedBy("routes", was); r != nil {
			got = r.Keys()
			for i, row := range r.Rows() {
				if row.(route).Destination.String() != got[i] {
					h.t.Errorf("%s was replaced by the row %+v, expected that of %s", was, row, got[i])
				}
			}
		}
		if strings.Join(got, " ") != by {
			h.t.Errorf("%s was replaced by %q, expected %q", was, got, by)
		}
	}
}

func TestADocumentInThePlaceOfAnotherReplacesIt(t *testing.T) {
	const kept = "10.0.0.0/16"
	set := "kind: set\nname: s\n"
	for name, c := range map[string]struct{ before, after, want string }{
		"one":               {netA, netB, netA + " " + netB},
		"between others":    {kept + " " + netA + " 10.8.0.0/16", kept + " " + netB + " 10.8.0.0/16", netA + " " + netB},
		"several":           {netA + " " + netB, netC + " 10.4.0.0/16", netA + " " + netC + " 10.4.0.0/16," + netB + " " + netC + " 10.4.0.0/16"},
		"fewer":             {netA + " " + netB, netC, netA + " " + netC + "," + netB + " " + netC},
		"more":              {netA, netB + " " + netC, netA + " " + netB + " " + netC},
		"elsewhere":         {netA + " " + kept, kept + " " + netB, netA + " " + netB},
		"sorted":            {netA + " " + netB + " " + netC, netB + " 10.4.0.0/16 10.9.0.0/16", netA + " 10.4.0.0/16 10.9.0.0/16," + netC + " 10.4.0.0/16 10.9.0.0/16"},
		"only removed":      {netA + " " + kept, kept, netA + " "},
		"another kind":      {netA + " set", "set " + netB, netA + " " + netB},
		"in another order":  {kept + " " + netA + " 10.8.0.0/16 " + netB, "10.8.0.0/16 " + netC + " " + kept + " 10.4.0.0/16", netA + " " + netC + " 10.4.0.0/16," + netB + " 10.4.0.0/16"},
		"of different kind": {netA, "set", netA + " "},
	} {
		t.Run(name, func(t *testing.T) {
			text := func(names string) string {
				var all []string
				for name := range strings.FieldsSeq(names) {
					if name == "set" {
						all = append(all, set)
					} else {
						all = append(all, routeTo(name, "eth0"))
					}
				}
				return documents(all...)
			}
			bubble(t, map[string]string{"a.yaml": text(c.before)}, func(_ *testing.T, h *harness) {
				h.settle()
				h.write("a.yaml", text(c.after))
				h.settle()
				h.wantReplaced(strings.Split(c.want, ",")...)
			})
		})
	}
}

func TestWhatReplacedADocumentIsReplaced(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0"), "z.yaml": "kind: set\nname: rest\n"}, func(_ *testing.T, h *harness) {
		h.settle()
		h.wantReplaced(netA + " ")
		h.write("a.yaml", routeTo(netB, "eth0"))
		h.settle()
		h.write("a.yaml", routeTo(netC, "eth0"))
		h.settle()
		h.wantReplaced(netA+" "+netC, netB+" "+netC)
		h.write("a.yaml", routeTo(netC, "eth1"))
		h.settle()
		h.wantReplaced(netA+" "+netC, netB+" "+netC)
		h.write("b.yaml", routeTo(netA, "eth0")) // declared again
		h.settle()
		h.wantReplaced(netA+" ", netB+" "+netC)
		h.remove("a.yaml")
		h.settle()
		h.wantReplaced(netA+" ", netB+" ")
	})
}

// With many documents, each waits for its own.
func TestManyDocumentsAreReplacedOneByOne(t *testing.T) {
	text := func(second int) string {
		var all []string
		for i := range maxTogether + 1 {
			all = append(all, routeTo(fmt.Sprintf("10.%d.%d.0/24", second, i), "eth0"))
		}
		return documents(all...)
	}
	bubble(t, map[string]string{"a.yaml": text(1)}, func(_ *testing.T, h *harness) {
		h.settle()
		h.write("a.yaml", text(2))
		h.settle()
		h.wantReplaced("10.1.0.0/24 10.2.0.0/24", "10.1.7.0/24 10.2.7.0/24")
	})
}

// However many documents change, those whose replacements fail or wait are remembered.
func TestReplacementsThatAreNotDoneAreNotForgotten(t *testing.T) {
	many := func(round int) string {
		var all []string
		for i := range 4000 {
			all = append(all, routeTo(fmt.Sprintf("10.%d.%d.%d/32", 10+round, i/250, i%250), "eth0"))
		}
		return documents(all...)
	}
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0"), "b.yaml": routeTo(netB, "eth0"), "c.yaml": routeTo(netC, "eth0"), "m.yaml": many(0)}, func(t *testing.T, h *harness) {
		h.settle()
		h.write("a.yaml", routeTo("10.4.0.0/16", "eth0"))
		h.write("b.yaml", routeTo("10.5.0.0/16", "eth0"))
		h.write("c.yaml", routeTo("10.6.0.0/16", "eth0"))
		h.settle()
		done := func(txn *statedb.WriteTxn) error {
			for r, revision := range h.routes.All(txn) {
				var err error
				switch r.Destination.String() {
				case "10.4.0.0/16":
					err = errors.New("no device")
				case "10.6.0.0/16":
					continue // it is pending
				}
				if _, err := h.routes.Amend(txn, r, revision, func(r route) route { return r.WithStatus(r.Status.After(err, time.Now())) }); err != nil {
					return err
				}
			}
			return nil
		}
		for round := range 4 {
			h.must(h.db.Update(t.Context(), done, h.routes))
			h.write("m.yaml", many(round+1))
			h.settle()
		}
		h.wantReplaced(netA+" 10.4.0.0/16", netB+" ", netC+" 10.6.0.0/16")
	})
}
