package statedb

import "math/bits"

// The keys of a prefix index (see index.Prefixes): the number of address bytes,
// the masked address, the length; behind that, in a secondary index, the primary key.
const maxPrefixKey = 1 + 16 + 1

// shorten makes a key that of the prefix with the first length bits of its address.
func shorten(key []byte, length int) {
	address := key[1 : len(key)-1]
	whole := length / 8
	if whole < len(address) {
		address[whole] &= ^byte(0xff >> (length % 8))
		clear(address[whole+1:])
	}
	key[len(key)-1] = byte(length)
}

// lastWithin returns what all keys inside the prefix of key, whose length is
// given, are less than, and no others that are greater than key.
func lastWithin(key []byte, length int) []byte {
	last := append([]byte(nil), key...)
	address := last[1 : len(last)-1]
	whole := length / 8
	for i := whole; i < len(address); i++ {
		address[i] = 0xff
	}
	if whole < len(address) {
		address[whole] = key[1+whole] | byte(0xff>>(length%8))
	}
	last[len(last)-1] = 0xff // which is no length
	return last
}

// commonBits is how many bits two addresses of one family begin with in common.
func commonBits(a, b []byte) int {
	for i := range a {
		if x := a[i] ^ b[i]; x != 0 {
			return 8*i + bits.LeadingZeros8(x)
		}
	}
	return 8 * len(a)
}
