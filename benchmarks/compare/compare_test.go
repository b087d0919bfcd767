package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/benchmarks/noop"
)

func contestant(name string, run func(int) (int, error)) noop.Contestant {
	return noop.Contestant{Name: name, Workers: 1, Run: func(_ context.Context, n int) (int, error) { return run(n) }}
}

func TestContestantsRunInTurn(t *testing.T) {
	var order []string
	entry := func(name string) noop.Contestant {
		return contestant(name, func(n int) (int, error) {
			order = append(order, name)
			return n, nil
		})
	}
	results, err := contest(t.Context(), []noop.Contestant{entry("a"), entry("b")}, 10, 3)
	if err != nil || len(results) != 2 || len(results[1].samples) != 3 {
		t.Fatal(results, err)
	}
	if got := strings.Join(order, ""); got != "ababab" {
		t.Errorf("order %s", got)
	}
}

func TestRunThatLeavesRowsOutIsAnError(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []noop.Contestant{
		contestant("lazy", func(n int) (int, error) { return n - 1, nil }),
		contestant("broken", func(n int) (int, error) { return n, boom }),
	} {
		if _, err := contest(t.Context(), []noop.Contestant{c}, 10, 1); err == nil || !strings.Contains(err.Error(), c.Name) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := contest(t.Context(), nil, 0, 1); err == nil {
		t.Error("no error without rows")
	}
}

func TestTableHasMediansAndRatios(t *testing.T) {
	var b strings.Builder
	err := writeTable(&b, []result{
		{contestant("peer", nil), []sample{{time: 3 * time.Second, cpu: 4 * time.Second, bytes: 8, mallocs: 1}, {time: time.Second}, {time: 2 * time.Second, cpu: 2 * time.Second}}},
		{contestant("ours", nil), []sample{{time: time.Second, cpu: time.Second, bytes: 4, mallocs: 2}}},
	}, 1000, 3)
	for _, want := range []string{
		"| peer | 1 | 500 | 1.00 | 2000000 ns | 1.00 | 0 | 0.0 |\n",
		"| ours | 1 | 1000 | 2.00 | 1000000 ns | 2.00 | 4 | 2.0 |\n",
	} {
		if err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
}
