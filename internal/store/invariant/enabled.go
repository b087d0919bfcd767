//go:build invariants || race

package invariant

// Enabled says whether this build checks invariants.
const Enabled = true
