//go:build reference_engine

package statedb

// referenceByDefault is for running tests on the reference engine.
const referenceByDefault = true
