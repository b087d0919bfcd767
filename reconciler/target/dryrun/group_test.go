package dryrun_test

import (
	"fmt"
	"testing"

	"github.com/statehive/statehive/reconciler/target/dryrun"
)

// onAll returns rows of which the second half is on all of the first half.
func onAll(n int) (rows []dryrun.Row) {
	for i := range n {
		rows = append(rows, rowOf("base", fmt.Sprintf("%06d", i), "1", ""))
	}
	for i := range n {
		rows = append(rows, rowOf("top", fmt.Sprintf("%06d", i), "2", "all of 1"))
	}
	return rows
}

func fixtureOnAll(t testing.TB) *fixture {
	f := newFixture(t)
	f.kind("base", &world{t: t}, "")
	f.kind("top", &world{t: t}, "base")
	return f
}

func TestAnOperationNamesTheFirstOfManyRowsThatItWaitsFor(t *testing.T) {
	const first = "base 000000, base 000001, base 000002, base 000003, base 000004, base 000005, base 000006, base 000007, base 000008, base 000009"
	for n, after := range map[int]string{10: first, 11: first + ", 1 more", 300: first + ", 290 more"} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f, rows := fixtureOnAll(t), onAll(n)
			lines := texts(f.plan(rows...))
			if got, want := lines[len(lines)-2], fmt.Sprintf("create top %06d after %s", n-1, after); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// BenchmarkManyRowsThatNeedTheSame is the plan of rows all of which need all rows of another kind, such as the rules and the routes
// of a table. Its time and memory grow with the number of rows, not with that of pairs.
func BenchmarkManyRowsThatNeedTheSame(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rows := onAll(n)
			b.ReportAllocs()
			for b.Loop() {
				fixtureOnAll(b).plan(rows...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
		})
	}
}
