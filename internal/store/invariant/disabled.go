//go:build !invariants && !race

package invariant

// Enabled reports whether this build checks invariants.
const Enabled = false
