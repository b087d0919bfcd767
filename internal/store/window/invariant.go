package window

import "fmt"

// Violation returns an error if the newest window of a lineage violates an invariant. revision
// returns the revision that wrote a row, and dead reports whether the row was buried.
func (w Window[T]) Violation(revision func(*T) uint64, dead func(*T) bool) error {
	if err := w.rows.violation(); err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	if err := w.deletes.violation(); err != nil {
		return fmt.Errorf("deletes: %w", err)
	}
	if err := w.rowsViolation(revision, dead); err != nil {
		return err
	}
	return w.deletesViolation(revision)
}

// violation returns an error if a directory violates an invariant: there must be a chunk for
// every position that is kept, and no other.
func (d *directory[C]) violation() error {
	if d.start > d.end {
		return fmt.Errorf("they begin at %d, behind their end at %d", d.start, d.end)
	}
	if d.first == nil {
		if d.start != d.end || len(d.rest) > 0 {
			return fmt.Errorf("the positions from %d to %d have no segment", d.start, d.end)
		}
		return nil
	}
	begin := d.start >> spanBits << spanBits
	for i := range uint64(segmentSize * (1 + len(d.rest))) {
		position := begin + i*chunkSize
		s := d.first
		if n := i >> segmentBits; n > 0 {
			s = d.rest[n-1]
		}
		if has, needs := s[i%segmentSize] != nil, position < d.end && position+chunkSize > d.start; has != needs {
			return fmt.Errorf("the chunk at %d is there: %t, expected %t; kept are %d to %d", position, has, needs, d.start, d.end)
		}
	}
	return nil
}

// rowsViolation recounts the dead.
func (w Window[T]) rowsViolation(revision func(*T) uint64, dead func(*T) bool) error {
	total, inChunk := 0, 0
	for position := w.rows.start; position < w.rows.end; position++ {
		c := w.rows.chunk(position)
		switch row := c.rows[slot(position)]; {
		case row == nil:
			inChunk++
		case revision(row) != position+1:
			return fmt.Errorf("the row of revision %d is recorded as that of %d", revision(row), position+1)
		case dead(row):
			inChunk++
		}
		if last := position + 1; last == w.rows.end || slot(last) == 0 {
			if c.dead != inChunk {
				return fmt.Errorf("the chunk of revision %d counts %d dead rows, it has %d", last, c.dead, inChunk)
			}
			total, inChunk = total+inChunk, 0
		}
	}
	if w.dead != total {
		return fmt.Errorf("%d dead rows are counted, there are %d", w.dead, total)
	}
	return nil
}

// deletesViolation compares the deletes with the empty slots among the rows.
func (w Window[T]) deletesViolation(revision func(*T) uint64) error {
	before := w.lostDeletes
	if before > w.Head() {
		return fmt.Errorf("the delete at %d is lost, the newest change is %d", before, w.Head())
	}
	empty := 0
	for position := w.rows.start; position < w.rows.end; position++ {
		if w.rows.chunk(position).rows[slot(position)] == nil && position+1 > w.lostDeletes {
			empty++
		}
	}
	for position := w.deletes.start; position < w.deletes.end; position++ {
		if err := w.deleteViolation(position, before, revision); err != nil {
			return err
		}
		before = w.deleteAt(position).revision
		if before > w.Base() {
			empty--
		}
	}
	if empty != 0 {
		return fmt.Errorf("%d revisions have neither a row nor a delete", empty)
	}
	return nil
}

func (w Window[T]) deleteViolation(position, before uint64, revision func(*T) uint64) error {
	r := w.deleteAt(position)
	switch committed := w.deletes.chunk(position).committed; {
	case r.row == nil:
		return fmt.Errorf("the delete at %d has no row", r.revision)
	case r.revision <= before || r.revision > w.Head():
		return fmt.Errorf("the delete at %d comes after %d; the newest change is %d", r.revision, before, w.Head())
	case revision(r.row) >= r.revision:
		return fmt.Errorf("the delete at %d has the row of revision %d", r.revision, revision(r.row))
	case committed <= position || committed > w.deletes.end:
		return fmt.Errorf("delete %d was committed with those up to %d, there are %d", position, committed, w.deletes.end)
	case r.revision > w.Base() && w.rows.chunk(r.revision - 1).rows[slot(r.revision-1)] != nil:
		return fmt.Errorf("revision %d has both a row and a delete", r.revision)
	}
	return nil
}
