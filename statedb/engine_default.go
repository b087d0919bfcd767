//go:build !reference_engine

package statedb

const referenceByDefault = false
