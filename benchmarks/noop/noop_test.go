package noop_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/statehive/statehive/benchmarks/noop"
)

func name(c noop.Contestant) string { return fmt.Sprintf("%s/workers=%d", c.Name, c.Workers) }

func TestContestantsReconcileEveryRow(t *testing.T) {
	for _, c := range noop.Contestants() {
		t.Run(name(c), func(t *testing.T) {
			const n = 2500
			if reconciled, err := c.Run(t.Context(), n); err != nil || reconciled != n {
				t.Errorf("reconciled %d rows, %v, want %d", reconciled, err, n)
			}
		})
	}
}

func TestContestantsEndWithTheContext(t *testing.T) {
	for _, c := range noop.Contestants() {
		t.Run(name(c), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.Run(ctx, 100_000); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// BenchmarkNoop takes one row for an operation.
func BenchmarkNoop(b *testing.B) {
	for _, c := range noop.Contestants() {
		b.Run(name(c), func(b *testing.B) {
			b.ReportAllocs()
			if _, err := c.Run(b.Context(), b.N); err != nil {
				b.Fatal(err)
			}
		})
	}
}
