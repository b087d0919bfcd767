package immutable_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/statehive/statehive/statedb/immutable"
)

func benchMap(n int) immutable.Map[string, int] {
	b := immutable.Map[string, int]{}.Builder()
	for i := range n {
		b.Set(fmt.Sprint("key-", i), i)
	}
	return b.Map()
}

// BenchmarkSet changes one of n values, beside what copying a Go map would take.
func BenchmarkSet(b *testing.B) {
	for _, n := range []int{10, 100, 10_000} {
		m := benchMap(n)
		plain := maps.Collect(m.All())
		b.Run(fmt.Sprintf("keys=%d/immutable", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m = m.Set("key-7", i)
			}
		})
		b.Run(fmt.Sprintf("keys=%d/clone", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				plain = maps.Clone(plain)
				plain["key-7"] = i
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	m := benchMap(10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := m.Get("key-7777"); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if benchMap(1000).Len() != 1000 {
			b.Fatal("lost keys")
		}
	}
}

func BenchmarkIterate(b *testing.B) {
	m := benchMap(10_000)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range m.All() {
			n++
		}
		if n != 10_000 {
			b.Fatal(n)
		}
	}
}

// BenchmarkEqual compares maps that were made apart.
func BenchmarkEqual(b *testing.B) {
	m, same := benchMap(100), benchMap(100)
	b.ReportAllocs()
	for b.Loop() {
		if !m.Equal(same) {
			b.Fatal("differ")
		}
	}
}
