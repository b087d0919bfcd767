package trie_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/statehive/statehive/statedb/internal/engine"
	"github.com/statehive/statehive/statedb/internal/engine/iradix"
	"github.com/statehive/statehive/statedb/internal/engine/trie"
)

type value struct{ _ int }

// big is the size of the trees that do not fit into the processor's caches.
const big = 100_000

var benchEngines = []struct {
	name string
	tree func() engine.Tree[*value]
}{
	{"trie", trie.New[*value]},
	{"iradix", iradix.New[*value]},
}

var benchKeys = []struct {
	name string
	make func(n int) [][]byte
}{
	{"random", randomKeys},
	{"sequential", sequentialKeys},
	{"text", textKeys},
}

func randomKeys(n int) [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	return keysOf(n, func(int) []byte { return binary.BigEndian.AppendUint64(nil, random.Uint64()) })
}

func sequentialKeys(n int) [][]byte {
	return keysOf(n, func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) })
}

func textKeys(n int) [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	return keysOf(n, func(i int) []byte {
		return fmt.Appendf(nil, "namespace-%02d/pod-%03x%04x", i%50, i/50, random.Uint32N(1<<16))
	})
}

func keysOf(n int, key func(i int) []byte) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = key(i)
	}
	return keys
}

// eachEngine runs a benchmark on every engine with all kinds of keys.
func eachEngine(b *testing.B, run func(b *testing.B, empty func() engine.Tree[*value], keys func(n int) [][]byte)) {
	for _, k := range benchKeys {
		for _, e := range benchEngines {
			b.Run("keys="+k.name+"/engine="+e.name, func(b *testing.B) { run(b, e.tree, k.make) })
		}
	}
}

// with returns a tree that has the keys, committed in transactions of 100.
func with(tree engine.Tree[*value], keys [][]byte) engine.Tree[*value] {
	for len(keys) > 0 {
		n := min(100, len(keys))
		tree = inserted(tree, keys[:n], &value{})
		keys = keys[n:]
	}
	return tree
}

func inserted(tree engine.Tree[*value], keys [][]byte, v *value) engine.Tree[*value] {
	txn := tree.Txn()
	for _, key := range keys {
		txn.Insert(key, v)
	}
	tree = txn.Commit()
	txn.Notify()
	return tree
}

func shuffled(keys [][]byte) [][]byte {
	keys = append([][]byte(nil), keys...)
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// meter measures what one of many keys costs.
type meter struct {
	memory runtime.MemStats
	cpu    time.Duration
}

func newMeter(b *testing.B) *meter {
	b.Helper()
	m := &meter{cpu: cpuTime(b)}
	runtime.ReadMemStats(&m.memory)
	return m
}

// report is about n keys in each operation.
func (m *meter) report(b *testing.B, n int) {
	b.Helper()
	now, keys := newMeter(b), float64(b.N)*float64(n)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/keys, "ns/key")
	b.ReportMetric(float64((now.cpu-m.cpu).Nanoseconds())/keys, "cpu-ns/key")
	b.ReportMetric(float64(now.memory.TotalAlloc-m.memory.TotalAlloc)/keys, "B/key")
	b.ReportMetric(float64(now.memory.Mallocs-m.memory.Mallocs)/keys, "allocs/key")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is that of the whole process, the collector included, which says more
// than the clock when others use the machine.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func BenchmarkInsert(b *testing.B) {
	const batch = 1_000
	eachEngine(b, func(b *testing.B, empty func() engine.Tree[*value], some func(n int) [][]byte) {
		keys, v := some(batch), &value{}
		m := newMeter(b)
		for b.Loop() {
			inserted(empty(), keys, v)
		}
		m.report(b, batch)
	})
}

func BenchmarkReplace(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			eachEngine(b, func(b *testing.B, empty func() engine.Tree[*value], some func(n int) [][]byte) {
				keys := some(big)
				tree, v := with(empty(), keys), &value{}
				keys = shuffled(keys)
				m := newMeter(b)
				for i := 0; b.Loop(); i += batch {
					i %= big
					tree = inserted(tree, keys[i:i+batch], v)
				}
				m.report(b, batch)
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, size := range []int{1_000, big} {
		for _, hit := range []bool{true, false} {
			b.Run(fmt.Sprintf("rows=%d/hit=%t", size, hit), func(b *testing.B) {
				eachEngine(b, func(b *testing.B, empty func() engine.Tree[*value], some func(n int) [][]byte) {
					keys := some(2 * size)
					tree := with(empty(), keys[:size])
					wanted := shuffled(keys[:size])
					if !hit {
						wanted = shuffled(keys[size:])
					}
					m := newMeter(b)
					for i := 0; b.Loop(); i++ {
						if _, ok := tree.Get(wanted[i%size]); ok != hit {
							b.Fatal(ok)
						}
					}
					m.report(b, 1)
				})
			})
		}
	}
}

func BenchmarkIterate(b *testing.B) {
	eachEngine(b, func(b *testing.B, empty func() engine.Tree[*value], some func(n int) [][]byte) {
		tree := with(empty(), shuffled(some(big)))
		m := newMeter(b)
		for b.Loop() {
			seen := 0
			for range tree.Prefix(nil) {
				seen++
			}
			if seen != big {
				b.Fatal(seen)
			}
		}
		m.report(b, big)
	})
}

func BenchmarkLowerBound(b *testing.B) {
	eachEngine(b, func(b *testing.B, empty func() engine.Tree[*value], some func(n int) [][]byte) {
		keys := some(2 * big)
		tree := with(empty(), keys[:big])
		keys = shuffled(keys)
		m := newMeter(b)
		for i := 0; b.Loop(); i++ {
			seen := 0
			for range tree.LowerBound(keys[i%len(keys)]) {
				if seen++; seen == 10 {
					break
				}
			}
		}
		m.report(b, 1)
	})
}

// BenchmarkHeap reports the bytes that a key occupies, itself included.
func BenchmarkHeap(b *testing.B) {
	eachEngine(b, func(b *testing.B, empty func() engine.Tree[*value], some func(n int) [][]byte) {
		v := &value{}
		for b.Loop() {
			before := heap()
			tree := inserted(empty(), some(big), v)
			b.ReportMetric(float64(heap()-before)/big, "heap-B/key")
			runtime.KeepAlive(tree)
		}
	})
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
