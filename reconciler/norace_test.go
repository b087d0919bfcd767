//go:build !race

package reconciler_test

const defaultSimulations = 150
