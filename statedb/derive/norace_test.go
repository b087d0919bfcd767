//go:build !race

package derive_test

// raceEnabled: the race detector makes everything ten times slower.
const raceEnabled = false
