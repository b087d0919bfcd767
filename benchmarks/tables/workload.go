package tables

import (
	"fmt"
	"runtime"
	"slices"
)

// Workload is something to do with a new store.
type Workload struct {
	Name string
	// Goal is what is wanted: at least that many times better than the last of Makers.
	Goal float64
	// AtMost is what is wanted where the others cannot do it or do something else:
	// nanoseconds on a quiet machine with two cores.
	AtMost float64
	// Secondaries is the number of secondary indexes, and Tables that of tables
	// in the database.
	Secondaries, Tables int
	// Prepare makes work for the store and returns it, and for how many rows or
	// operations it counts: 0 when the store cannot do it.
	Prepare func(s Store) (run func() error, count int, err error)
	// Unit is what is counted. What counts heap has run return what to keep.
	Unit string
}

// Workloads returns all that is measured but the heap, for which see [Heap]. A
// large table has so many rows: a multiple of 5,000.
func Workloads(large int) []Workload {
	l := scale(large)
	return slices.Concat([]Workload{
		l.insert(1, 0), l.insert(100, 0), l.insert(1_000, 0), l.insert(100, 1), modify(1_000), swap(1_000),
		l.replace(1, 0), l.replace(100, 0), l.replace(1_000, 0), l.replace(1, 1), l.replace(100, 1), l.replace(1_000, 1),
	}, l.reads(), []Workload{empty(1, 254), empty(100, 431), cycle(), announce(100), lookups()})
}

// scale is the number of rows of a large table.
type scale int

func (l scale) insert(batch, secondaries int) Workload {
	return Workload{
		Name: "insert, " + batches(batch, secondaries), Goal: 6, Secondaries: secondaries, Tables: 1, Unit: "row",
		Prepare: func(s Store) (func() error, int, error) {
			count := int(l) / 5
			rows := Rows(count, 20)
			return func() error { return inBatches(rows, batch, s.Write) }, count, nil
		},
	}
}

func batches(batch, secondaries int) string {
	name := fmt.Sprintf("%d in a transaction", batch)
	if secondaries > 0 {
		name += ", with a secondary index"
	}
	return name
}

func inBatches(rows []Row, batch int, write func([]Row) error) error {
	for some := range slices.Chunk(rows, batch) {
		if err := write(some); err != nil {
			return err
		}
	}
	return nil
}

func modify(batch int) Workload {
	return again(fmt.Sprintf("modify, %d in a transaction, of 1,000", batch), Store.Modify)
}

func swap(batch int) Workload {
	return again(fmt.Sprintf("get and compare-and-swap, %d in a transaction, of 1,000", batch), Store.Swap)
}

// again writes the same 1,000 rows again and again.
func again(name string, write func(Store, []Row) error) Workload {
	return Workload{
		Name: name, Goal: 6, Tables: 1, Unit: "row",
		Prepare: func(s Store) (func() error, int, error) {
			const times = 100
			rows := Rows(1_000, 20)
			err := s.Write(rows)
			return func() error {
				for range times {
					if err := write(s, rows); err != nil {
						return err
					}
				}
				return nil
			}, times * len(rows), err
		},
	}
}

func (l scale) replace(batch, secondaries int) Workload {
	return Workload{
		Name: fmt.Sprintf("replace random of %d, ", l) + batches(batch, secondaries), Goal: 6, Secondaries: secondaries, Tables: 1, Unit: "row",
		Prepare: func(s Store) (func() error, int, error) {
			rows := Rows(int(l), 20)
			if err := inBatches(rows, 1_000, s.Write); err != nil {
				return nil, 0, err
			}
			count := min(int(l)/5, int(l)/50*batch)
			some := slices.Clone(rows[l/2 : int(l)/2+count])
			for i := range some {
				some[i].Version++
			}
			return func() error { return inBatches(some, batch, s.Write) }, count, nil
		},
	}
}

func (l scale) reads() []Workload {
	large := int(l)
	gets := 5 * large
	get := func(size int) Workload {
		return reading(fmt.Sprintf("get by primary key, of %d", size), size, 0, "get", func(s Store, rows []Row) (func() error, int) {
			return each(gets, func(i int) bool { return s.Get(rows[i*7%size].ID) }), gets
		})
	}
	return []Workload{
		get(1_000), get(large),
		reading(fmt.Sprintf("get by secondary key, of %d", large), large, 1, "get", func(s Store, rows []Row) (func() error, int) {
			return each(large, func(i int) bool { return s.List(rows[i*7%large].Group) >= 20 }), large * 20
		}),
		readingGroups("list 1,000 by secondary key", large/5, 1_000, 1, "row", func(s Store, _ []Row) (func() error, int) {
			const times = 1_000
			return each(times, func(i int) bool { return s.List(fmt.Sprintf("group-%d", i%(large/5_000))) == 1_000 }), times * 1_000
		}),
		reading(fmt.Sprintf("all of %d", large), large, 0, "row", func(s Store, _ []Row) (func() error, int) {
			const times = 20
			return each(times, func(int) bool { return s.All() == large }), times * large
		}),
	}
}

func each(n int, ok func(i int) bool) func() error {
	return func() error {
		for i := range n {
			if !ok(i) {
				return fmt.Errorf("number %d found something else", i)
			}
		}
		return nil
	}
}

func reading(name string, size, secondaries int, unit string, work func(s Store, rows []Row) (func() error, int)) Workload {
	return readingGroups(name, size, 20, secondaries, unit, work)
}

func readingGroups(name string, size, perGroup, secondaries int, unit string, work func(s Store, rows []Row) (func() error, int)) Workload {
	return Workload{
		Name: name, Goal: 3, Secondaries: secondaries, Tables: 1, Unit: unit,
		Prepare: func(s Store) (func() error, int, error) {
			rows := Rows(size, perGroup)
			if err := inBatches(rows, 1_000, s.Write); err != nil {
				return nil, 0, err
			}
			run, count := work(s, rows)
			return run, count, nil
		},
	}
}

func empty(tables int, atMost float64) Workload {
	return Workload{
		Name: fmt.Sprintf("empty commit, database of %d tables", tables), AtMost: atMost, Tables: tables, Unit: "commit",
		Prepare: func(s Store) (func() error, int, error) {
			const times = 100_000
			return func() error {
				for range times {
					if err := s.Empty(); err != nil {
						return err
					}
				}
				return nil
			}, times, nil
		},
	}
}

// cycle inserts 1,000 rows, observes them, deletes them all and observes that.
func cycle() Workload {
	return Workload{
		Name: "insert 1,000, observe, delete, observe", AtMost: 460, Tables: 1, Unit: "row",
		Prepare: func(s Store) (func() error, int, error) {
			f, ok := s.(Follower)
			if !ok {
				return nil, 0, nil
			}
			const times = 100
			rows := Rows(1_000, 20)
			return func() error {
				for range times {
					for _, write := range []func([]Row) error{f.Write, f.Delete} {
						if err := write(rows); err != nil {
							return err
						}
						if n := f.Observe(); n != len(rows) {
							return fmt.Errorf("observed %d changes of %d rows", n, len(rows))
						}
					}
				}
				return nil
			}, times * len(rows), nil
		},
	}
}

// Heap returns the bytes that a store needs for each of n rows beside the texts
// in them, after each was replaced so many times.
func Heap(m Maker, secondaries, n, replaced int) (float64, error) {
	rows := Rows(n, 20)
	before := inUse()
	s, err := m.New(secondaries, 1)
	for i := 0; err == nil && i <= replaced; i++ {
		for j := range rows {
			rows[j].Version = i
		}
		err = inBatches(rows, 1_000, s.Write)
	}
	after := inUse()
	runtime.KeepAlive(s)
	runtime.KeepAlive(rows)
	return float64(after-before) / float64(n), err
}

func inUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
