package tables

import "testing"

func TestStoresDoAllWork(t *testing.T) {
	for _, m := range Makers() {
		for _, w := range Workloads(5_000) {
			s, err := m.New(w.Secondaries, w.Tables)
			if err != nil {
				t.Fatal(err)
			}
			run, count, err := w.Prepare(s)
			if err != nil {
				t.Fatalf("%s: %s: %v", m.Name, w.Name, err)
			}
			if count == 0 {
				continue
			}
			if err := run(); err != nil {
				t.Errorf("%s: %s: %v", m.Name, w.Name, err)
			}
		}
	}
}

func TestModifiedRowsStayInTheirIndexes(t *testing.T) {
	for _, m := range Makers() {
		s, err := m.New(3, 1)
		if err != nil {
			t.Fatal(err)
		}
		rows := Rows(100, 20)
		for _, write := range []func([]Row) error{s.Write, s.Modify, s.Swap, s.Write} {
			if err := write(rows); err != nil {
				t.Fatal(err)
			}
			if s.All() != 100 || s.List("group-1") != 20 || !s.Get(rows[0].ID) || s.Get("nothing") {
				t.Errorf("%s: %d rows, %d in a group", m.Name, s.All(), s.List("group-1"))
			}
		}
	}
}

func TestRowsArriveInAnotherTable(t *testing.T) {
	for _, m := range Makers() {
		p50, p99, ok, err := Propagation(m, 100)
		if err != nil || ok && (p50 <= 0 || p99 < p50) {
			t.Errorf("%s: %v and %v, %v", m.Name, p50, p99, err)
		}
	}
}

func TestHeapIsThatOfTheStore(t *testing.T) {
	for _, m := range Makers() {
		if perRow, err := Heap(m, 1, 2_000, 1); err != nil || perRow < 50 || perRow > 5_000 {
			t.Errorf("%s: %f bytes, %v", m.Name, perRow, err)
		}
	}
}
