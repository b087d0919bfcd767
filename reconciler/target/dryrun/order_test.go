package dryrun

import (
	"fmt"
	"strings"
	"testing"
)

// Documents of unknown origin may be planned. Each of very many rows may need each other one.
func TestManyRowsThatNeedEachOther(t *testing.T) {
	const n = 20_000
	var even, odd group
	var rows []*step
	for i := range n {
		s := &step{op: Operation{Kind: "link", Key: fmt.Sprintf("%05d", i), Action: Create}}
		own, other := &even, &odd
		if i%2 == 1 {
			own, other = other, own
		}
		own.steps, s.needs = append(own.steps, s), []*group{other}
		rows = append(rows, s)
	}
	for i := range n { // they need what is in the cycle
		rows = append(rows, &step{op: Operation{Kind: "route", Key: fmt.Sprintf("%05d", i), Action: Create}, needs: []*group{&even}})
	}
	all := (&steps{rows: rows}).ordered()
	if len(all) != 2*n {
		t.Fatalf("%d steps are in order, want %d", len(all), 2*n)
	}
	for _, s := range all {
		want := "in a cycle of rows that wait for each other: link"
		if s.op.Kind == "route" {
			want = "waits for link 00000"
		}
		if s.op.Action != Fail || !strings.HasPrefix(s.op.Error, want) {
			t.Fatalf("%s: %s: %q", s.title(), s.op.Action, s.op.Error)
		}
	}
}
