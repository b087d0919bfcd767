// Package immutable has maps, sets and lists that can be fields of rows: a change
// makes a new value that shares most of its memory with the old one, which stays
// what it was. Copying a [Map] or [Set] costs nothing, changing one of n elements
// about log(n). A [List] is made as a whole.
//
// # Values
//
// The zero Map, Set and List are empty and ready to use. All are safe for
// concurrent use and start no goroutines, and Map and Set take no locks. What is
// stored is shared by all versions, so values that are or hold pointers must not be
// changed.
//
// # Order
//
// Keys are encoded by package statedb/index and so ordered as their types are.
// For times, that is the instant: two times of one instant are one key. The
// types that can be keys are those of [Key]; where two things together are the
// key, a map of maps does it: Map[string, Map[uint16, V]].
//
// # Comparison
//
// There is no == for Map and Set, because equal ones may be made of different
// memory. A row that has one as a field says by a method Equal, which uses
// [Map.Equal] and [Set.Equal], when it says the same as another row. Lists are
// compared with ==, and so are rows that have one.
//
// # Errors
//
// Only JSON can fail: see [Map.MarshalJSON].
package immutable
