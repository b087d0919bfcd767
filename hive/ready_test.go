package hive_test

import (
	"context"
	"slices"
	"testing"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

func TestHiveIsReadyWhenAllConditionsHaveHeldAndStaysSo(t *testing.T) {
	var waitsFor []string
	var readiness *hive.Readiness
	h := newHive(t, hive.Options{},
		cell.Provide(
			func() hive.ConditionOut { return hive.NewCondition("tables", func() []string { return waitsFor }) },
			func() hive.ConditionOut { return hive.NewCondition("nothing", func() []string { return nil }) },
		),
		cell.Invoke(func(r *hive.Readiness) { readiness = r }),
	)
	expect := func(when string, want ...string) {
		if ready, waits := readiness.Ready(); ready != (len(want) == 0) || !slices.Equal(waits, want) {
			t.Errorf("%s: ready is %v, waits for %q", when, ready, waits)
		}
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitsFor = []string{"a", "b"}
	expect("while one does not hold", "tables: a", "tables: b")
	waitsFor = nil
	expect("when all hold")
	waitsFor = []string{"c"}
	expect("afterwards")
	if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}
