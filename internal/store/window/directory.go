package window

import "slices"

const (
	chunkBits = 8
	chunkSize = 1 << chunkBits // items in a chunk, the unit of dropping

	segmentBits = 6
	segmentSize = 1 << segmentBits // chunks in a segment

	spanBits = chunkBits + segmentBits
)

// directory finds the chunk of a position in a list that grows at its end and is
// dropped, in whole chunks, from its beginning. A copy of it is a view: growing
// changes only memory beyond the end of all older views, and dropping copies at
// most one segment, so that only older views keep a dropped chunk.
type directory[C any] struct {
	first *segment[C]   // the segment of start; its chunks before start are nil
	rest  []*segment[C] // the following segments
	start uint64        // the first position that is kept
	end   uint64        // the next position
	moved uint64        // slots copied so far, which is the cost of dropping
}

type segment[C any] [segmentSize]*C

// startingAt returns an empty directory whose first position is given.
func startingAt[C any](position uint64) directory[C] {
	return directory[C]{start: position, end: position}
}

// slot returns the index of a position in its chunk.
func slot(position uint64) uint64 { return position & (chunkSize - 1) }

// chunk returns the chunk of a position in [start, end).
func (d *directory[C]) chunk(position uint64) *C {
	return d.segment(position)[position>>chunkBits&(segmentSize-1)]
}

func (d *directory[C]) segment(position uint64) *segment[C] {
	if i := position>>spanBits - d.start>>spanBits; i > 0 {
		return d.rest[i-1]
	}
	return d.first
}

// grow adds a position and returns its chunk and slot.
func (d *directory[C]) grow() (*C, uint64) {
	switch i := d.end>>spanBits - d.start>>spanBits; {
	case d.first == nil:
		d.first = new(segment[C])
	case i > uint64(len(d.rest)):
		d.rest = append(d.rest, new(segment[C]))
	}
	c := &d.segment(d.end)[d.end>>chunkBits&(segmentSize-1)]
	if *c == nil {
		*c = new(C)
	}
	d.end++
	return *c, slot(d.end - 1)
}

// chunkEnd returns the position after the first chunk, whether that is full or not.
func (d *directory[C]) chunkEnd() uint64 { return d.start&^(chunkSize-1) + chunkSize }

// dropTo drops the chunks before a position, which begins a chunk or is the end.
func (d *directory[C]) dropTo(position uint64) {
	if position <= d.start {
		return
	}
	passed := position>>spanBits - d.start>>spanBits
	switch {
	case passed > uint64(len(d.rest)): // the end, which has no segment yet
		d.first, d.rest = nil, nil
	case passed > 0:
		d.first = d.rest[passed-1]
		d.rest = slices.Clone(d.rest[passed:])
		d.moved += uint64(len(d.rest))
	}
	d.start = position
	if d.first != nil {
		kept := *d.first
		clear(kept[:position>>chunkBits&(segmentSize-1)])
		d.first = &kept
		d.moved += segmentSize
	}
}
