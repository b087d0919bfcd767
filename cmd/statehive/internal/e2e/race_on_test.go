//go:build race

package e2e

// raceDetector says whether the tests, and so the program too, run under it.
const raceDetector = true
