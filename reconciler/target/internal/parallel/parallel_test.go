package parallel_test

import (
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/reconciler/target/internal/parallel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachNumberIsCalledOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 15, 16, 17, 1000} {
		calls := make([]atomic.Int32, n)
		parallel.Each(n, func(i int) { calls[i].Add(1) })
		for i := range calls {
			if got := calls[i].Load(); got != 1 {
				t.Errorf("of %d: %d was called %d times", n, i, got)
			}
		}
	}
}
