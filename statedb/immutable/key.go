package immutable

import (
	"net/netip"
	"time"

	"github.com/statehive/statehive/statedb/index"
)

// Key is the constraint for keys of a [Map] and elements of a [Set]: single values
// with an order and a text form. Arrays of bytes are for hardware addresses, UUIDs and
// digests.
type Key interface {
	~bool | ~string |
		~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~[4]byte | ~[6]byte | ~[8]byte | ~[16]byte | ~[20]byte | ~[32]byte |
		netip.Addr | netip.Prefix | time.Time
}

// codecOf returns the codec of K, which has one by its constraint.
func codecOf[K Key]() *index.Codec[K] {
	codec, _ := index.For[K]()
	return &codec
}
