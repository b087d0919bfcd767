//go:build race

package reconciler_test

// defaultSimulations are fewer under the race detector, which makes them slow.
const defaultSimulations = 40

// manyRows are fewer under the race detector.
const manyRows = 20_000
