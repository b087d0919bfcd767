// Package invariant says whether a build checks, at run time, what should hold
// whatever happens: with the build tag invariants, and under the race detector.
//
// Checks stand behind a test of [Enabled], so that other builds do without them:
// the constant takes the check and all that it calls out of the program.
package invariant

import "fmt"

// Violated ends the program, or the test: our own code is wrong, and what it
// would do next cannot be trusted. It is never called because of input.
func Violated(err error) {
	panic(fmt.Sprintf("invariant violated: %v", err))
}
