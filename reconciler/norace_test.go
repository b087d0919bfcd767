//go:build !race

package reconciler_test

const defaultSimulations = 150

// manyRows are what a large table has.
const manyRows = 100_000
