package trie

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// big is the size of the trees that do not fit into the processor's caches.
const big = 100_000

// measured is a tree whose transactions are measured, and what is asked of it.
type measured interface {
	// write commits one transaction that sets all keys.
	write(keys [][]byte)
	get(key []byte) bool
	// visit counts the keys that are not less than from, up to a limit.
	visit(from []byte, limit int) int
}

var benchEngines = []struct {
	name string
	tree func() measured
}{
	{"embedded", func() measured { return &measuredTrie{tree: New(), leaf: newBenchRow} }},
	{"separate", func() measured {
		row := unsafe.Pointer(&benchRow{})
		return &measuredTrie{tree: New(), leaf: func(key []byte) unsafe.Pointer { return NewSeparateLeaf(key, row) }}
	}},
	{"iradix", func() measured { return &measuredRadix{iradix.New[*benchRow](), &benchRow{}} }},
}

// benchRow is an entry with room for the keys of benchmarks.
type benchRow struct {
	Leaf
	room [24]byte
}

func newBenchRow(key []byte) unsafe.Pointer {
	row := &benchRow{}
	row.SetKey(unsafe.Offsetof(row.room), uintptr(len(key)))
	copy(row.room[:], key)
	return unsafe.Pointer(row)
}

type measuredTrie struct {
	tree Tree
	ids  uint64
	txn  Txn
	scan Scan
	leaf func(key []byte) unsafe.Pointer
}

func (m *measuredTrie) write(keys [][]byte) {
	m.txn.Begin(&m.tree, &m.ids)
	for _, key := range keys {
		m.txn.Insert(key, m.leaf(key))
	}
	m.tree = m.txn.Commit()
	m.txn.Notify()
}

func (m *measuredTrie) get(key []byte) bool { return m.tree.Get(key) != nil }

func (m *measuredTrie) visit(from []byte, limit int) (seen int) {
	r := m.tree.From(from)
	m.scan.Start(&r)
	for run := m.scan.Next(); len(run) > 0; run = m.scan.Next() {
		for _, leaf := range run {
			if len(Key(leaf)) == 0 {
				panic("no key")
			}
			if seen++; seen == limit {
				return seen
			}
		}
	}
	return seen
}

type measuredRadix struct {
	tree *iradix.Tree[*benchRow]
	row  *benchRow
}

func (m *measuredRadix) write(keys [][]byte) {
	txn := m.tree.Txn()
	txn.TrackMutate(true)
	for _, key := range keys {
		txn.Insert(key, m.row)
	}
	m.tree = txn.CommitOnly()
	txn.Notify()
}

func (m *measuredRadix) get(key []byte) bool {
	_, found := m.tree.Root().Get(key)
	return found
}

func (m *measuredRadix) visit(from []byte, limit int) (seen int) {
	it := m.tree.Root().Iterator()
	it.SeekLowerBound(from)
	for key, _, ok := it.Next(); ok; key, _, ok = it.Next() {
		if len(key) == 0 {
			panic("no key")
		}
		if seen++; seen == limit {
			return seen
		}
	}
	return seen
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
func eachEngine(b *testing.B, run func(b *testing.B, empty func() measured, keys func(n int) [][]byte)) {
	for _, k := range benchKeys {
		for _, e := range benchEngines {
			b.Run("keys="+k.name+"/engine="+e.name, func(b *testing.B) { run(b, e.tree, k.make) })
		}
	}
}

// with writes the keys to a tree in transactions of 100.
func with(tree measured, keys [][]byte) measured {
	for len(keys) > 0 {
		n := min(100, len(keys))
		tree.write(keys[:n])
		keys = keys[n:]
	}
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

// cpuTime is that of the whole process, the collector included, which tells more
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
	eachEngine(b, func(b *testing.B, empty func() measured, some func(n int) [][]byte) {
		keys := some(batch)
		m := newMeter(b)
		for b.Loop() {
			empty().write(keys)
		}
		m.report(b, batch)
	})
}

func BenchmarkReplace(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			eachEngine(b, func(b *testing.B, empty func() measured, some func(n int) [][]byte) {
				keys := some(big)
				tree := with(empty(), keys)
				keys = shuffled(keys)
				m := newMeter(b)
				for i := 0; b.Loop(); i += batch {
					i %= big
					tree.write(keys[i : i+batch])
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
				eachEngine(b, func(b *testing.B, empty func() measured, some func(n int) [][]byte) {
					keys := some(2 * size)
					tree := with(empty(), keys[:size])
					wanted := shuffled(keys[:size])
					if !hit {
						wanted = shuffled(keys[size:])
					}
					m := newMeter(b)
					for i := 0; b.Loop(); i++ {
						if found := tree.get(wanted[i%size]); found != hit {
							b.Fatal(found)
						}
					}
					m.report(b, 1)
				})
			})
		}
	}
}

func BenchmarkIterate(b *testing.B) {
	eachEngine(b, func(b *testing.B, empty func() measured, some func(n int) [][]byte) {
		tree := with(empty(), shuffled(some(big)))
		m := newMeter(b)
		for b.Loop() {
			if seen := tree.visit(nil, 0); seen != big {
				b.Fatal(seen)
			}
		}
		m.report(b, big)
	})
}

func BenchmarkLowerBound(b *testing.B) {
	eachEngine(b, func(b *testing.B, empty func() measured, some func(n int) [][]byte) {
		keys := some(2 * big)
		tree := with(empty(), keys[:big])
		keys = shuffled(keys)
		m := newMeter(b)
		for i := 0; b.Loop(); i++ {
			tree.visit(keys[i%len(keys)], 10)
		}
		m.report(b, 1)
	})
}

// BenchmarkHeap reports the bytes that a key occupies, itself included.
func BenchmarkHeap(b *testing.B) {
	eachEngine(b, func(b *testing.B, empty func() measured, some func(n int) [][]byte) {
		for b.Loop() {
			before := heapInUse()
			tree := empty()
			tree.write(some(big))
			b.ReportMetric(float64(heapInUse()-before)/big, "heap-B/key")
			runtime.KeepAlive(tree)
		}
	})
}
