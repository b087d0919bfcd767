// Package invariant controls whether a build checks invariants at run time, which is
// the case with the build tag invariants and under the race detector.
//
// Checks depend on the constant [Enabled], so that the compiler removes them, and all
// code that only they call, from other builds.
package invariant

import "fmt"

// Violated ends the program, or the test, by a panic: our own code is wrong, and its
// further actions cannot be trusted. It is never called because of input.
func Violated(err error) {
	panic(fmt.Sprintf("invariant violated: %v", err))
}
