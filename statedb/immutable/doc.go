// Package immutable has maps, sets and lists that can be fields of rows. A change
// makes a new value that shares most of its memory with the old one, which does not
// change. Copying a [Map] or [Set] costs nothing, and changing one with n elements
// about log(n). A [List] is made as a whole.
//
// # Values
//
// The zero Map, Set and List are empty and ready to use. All are safe for
// concurrent use and start no goroutines, and Map and Set take no locks. Stored values
// are shared by all versions, so memory that they point to must not be changed.
//
// # Order
//
// Keys are encoded by package statedb/index, and so have the order of their types.
// Times are ordered by instant: two times of the same instant are the same key. [Key]
// has the types that can be keys. For keys with two parts, use a map of maps:
// Map[string, Map[uint16, V]].
//
// # Comparison
//
// Maps and sets cannot be compared with ==, because equal ones may consist of different
// memory. A row type with such a field needs a method Equal that uses [Map.Equal] and
// [Set.Equal]. Lists, and rows with lists, can be compared with ==.
//
// # Errors
//
// Only JSON can fail: see [Map.MarshalJSON].
package immutable
