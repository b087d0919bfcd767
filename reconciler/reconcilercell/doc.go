// Package reconcilercell joins reconcilers to a hive: [Register] and
// [RegisterWithStatus] put one into a module, [Cell] shows all of them through the
// API, the status command and Prometheus, and lets people steer them by commands.
//
// A constructor of the hive can contribute functions of (table, key string) to the
// group "row-origins": they say who wrote a row, and empty when they do not know.
// What people ask for by hand is logged.
//
// Metrics carry the labels module_id and reconciler. Everything here is safe
// for concurrent use once the hive has started.
package reconcilercell
