package file

import "testing"

func TestOriginIsThePlaceOfTheVersionInForce(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": documents(routeTo(netA, "old"), routeTo(netB, "old"))}, func(t *testing.T, h *harness) {
		if got := h.source.Origin("routes", netA); got != "" {
			t.Errorf("before the first look it is %q", got)
		}
		h.settle()
		h.write("b.yaml", routeTo(netB, "new")) // is not taken over
		h.settle()
		for key, want := range map[string]string{netA: "a.yaml:2:14", netB: "a.yaml:6:14", "10.99.0.0/16": ""} {
			if got := h.relative(h.source.Origin("routes", key)); got != want {
				t.Errorf("%s is from %q, want %q", key, got, want)
			}
		}
		if got := h.source.Origin("rows", netA); got != "" {
			t.Errorf("a row of a table of no kind is from %q", got)
		}
	})
}
