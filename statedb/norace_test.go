//go:build !race

package statedb_test

// raceEnabled: the race detector makes everything ten times slower.
const raceEnabled = false
