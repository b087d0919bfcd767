package store

import (
	"sync/atomic"
	"time"
)

// TableStats are measurements of a table: of a snapshot, or for cursors and locks, since
// the table was made.
type TableStats struct {
	Rows     int
	Revision Revision
	// Changes and Deletes are the numbers of revisions and of deleted rows that are kept
	// for cursors.
	Changes, Deletes int
	// Cursors is the number of open cursors. Lag and LagTime are those of the slowest.
	Cursors int
	Lag     int
	LagTime time.Duration
	// Waits is how long transactions waited for the table's lock, also when they gave up,
	// and Holds is how long they held it.
	Waits, Holds Durations
}

// Durations is a distribution of durations.
type Durations struct {
	Count uint64
	Sum   time.Duration
	// Within is the number of durations that were not longer than each bound.
	Within map[time.Duration]uint64
}

// Stats returns measurements of the table.
func (t *Table) Stats(txn ReadTxn) TableStats {
	s := TableStats{
		Rows:     t.Len(txn),
		Revision: t.Revision(txn),
		Waits:    t.lock.waits.durations(),
		Holds:    t.lock.holds.durations(),
	}
	if v := t.committed(txn); v != nil {
		w := v.window()
		s.Changes = int(w.Head() - w.Base())
		s.Deletes = w.DeleteCount()
	}
	t.addCursors(&s)
	return s
}

func (t *Table) addCursors(s *TableStats) {
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	s.Cursors = len(t.changes.cursors)
	for c := range t.changes.cursors {
		s.Lag = max(s.Lag, c.Lag())
		s.LagTime = max(s.LagTime, c.LagTime())
	}
}

// durationBounds range from what an uncontended transaction takes to what nobody should
// have to wait.
var durationBounds = [...]time.Duration{
	10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond,
	100 * time.Millisecond, time.Second, 10 * time.Second,
}

// histogram counts durations. It is safe for concurrent use.
type histogram struct {
	sum    atomic.Int64
	counts [len(durationBounds) + 1]atomic.Uint64 // the last one is for durations longer than all bounds
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(durationBounds) && d > durationBounds[i] {
		i++
	}
	if d != 0 {
		h.sum.Add(int64(d))
	}
	h.counts[i].Add(1)
}

func (h *histogram) durations() Durations {
	d := Durations{Sum: time.Duration(h.sum.Load()), Within: make(map[time.Duration]uint64, len(durationBounds))}
	for i := range h.counts {
		d.Count += h.counts[i].Load()
		if i < len(durationBounds) {
			d.Within[durationBounds[i]] = d.Count
		}
	}
	return d
}
