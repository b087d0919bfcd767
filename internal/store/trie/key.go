package trie

import (
	"encoding/binary"
	"math/bits"
)

// A key is read as chunks of four bits, the high half of each byte first. A
// chunk's offset is its number from the beginning of the key. The symbol of a
// chunk is one bit: the lowest says that the key has ended, which sorts before
// all others, and the next sixteen stand for the values of the chunk.
const (
	symbols   = 1 + 16
	ended     = 1
	never     = 1<<offsetBits - 1 // an offset that no chunk has
	chunkBits = 4
)

// symbol returns the symbol of key at an offset.
func symbol(key []byte, offset uint64) uint64 {
	if offset/2 >= uint64(len(key)) {
		return ended
	}
	return symbolOf(chunk(key, offset))
}

// chunk returns the value of the chunk of key at an offset, which must not be past its end.
func chunk(key []byte, offset uint64) uint8 {
	return key[offset/2] >> ((^offset & 1) * chunkBits) & 0xf
}

// symbolOf returns the symbol for the value of a chunk.
func symbolOf(chunk uint8) uint64 { return 2 << chunk }

// difference returns the offset of the first chunk in which two keys differ, or
// never if they are equal.
func difference(a, b []byte) uint64 {
	n, i := min(len(a), len(b)), 0
	for ; i+8 <= n; i += 8 {
		if x := binary.BigEndian.Uint64(a[i:]) ^ binary.BigEndian.Uint64(b[i:]); x != 0 {
			return uint64(2*i + bits.LeadingZeros64(x)/chunkBits)
		}
	}
	for ; i < n; i++ {
		if x := a[i] ^ b[i]; x != 0 {
			return uint64(2*i + bits.LeadingZeros8(x)/chunkBits)
		}
	}
	if len(a) == len(b) {
		return never
	}
	return uint64(2 * n)
}
