package statedb

import (
	"sync/atomic"
	"time"
)

// TableStats is what there is to measure of a table: at the moment of a
// snapshot, or for the cursors and locks since the table was made.
type TableStats struct {
	Rows     int
	Revision Revision
	// Changes and Deletes are what is kept for cursors: the revisions that they
	// can still be told one by one, and the deleted rows.
	Changes, Deletes int
	// Cursors are those that are open. Lag and LagTime are those of the slowest.
	Cursors int
	Lag     int
	LagTime time.Duration
	// Waits is how long transactions waited for the table's lock, also in vain,
	// and Holds how long they had it.
	Waits, Holds Durations
}

// Durations is a distribution of durations.
type Durations struct {
	Count uint64
	Sum   time.Duration
	// Within has the number of durations that were not longer than each bound.
	Within map[time.Duration]uint64
}

func (a anyTable[Obj]) Stats(txn ReadTxn) TableStats {
	s := TableStats{
		Rows:     a.t.Len(txn),
		Revision: a.t.Revision(txn),
		Waits:    a.t.lock.waits.durations(),
		Holds:    a.t.lock.holds.durations(),
	}
	if v := a.t.committed(txn); v != nil {
		s.Changes = int(v.changes.Head() - v.changes.Base())
		s.Deletes = v.changes.DeleteCount()
	}
	a.t.addCursors(&s)
	return s
}

func (t *table[Obj]) addCursors(s *TableStats) {
	t.followMu.Lock()
	defer t.followMu.Unlock()
	s.Cursors = len(t.followers)
	for c := range t.followers {
		s.Lag = max(s.Lag, c.Lag())
		s.LagTime = max(s.LagTime, c.LagTime())
	}
}

// durationBounds go from what an uncontended transaction takes to what nobody
// should wait for.
var durationBounds = [...]time.Duration{
	10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond,
	100 * time.Millisecond, time.Second, 10 * time.Second,
}

// histogram counts durations. It is safe for concurrent use.
type histogram struct {
	sum    atomic.Int64
	counts [len(durationBounds) + 1]atomic.Uint64 // the last one is for what is longer than all bounds
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(durationBounds) && d > durationBounds[i] {
		i++
	}
	h.sum.Add(int64(d))
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
