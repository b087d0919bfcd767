//go:build invariants || race

package workqueue

// Checked reports whether an illegal move of an item panics.
const Checked = true
