// Package reconcilercell joins reconcilers to a hive: [Register] and
// [RegisterWithStatus] put one into a module, [Cell] shows all of them through the
// API, the status command and Prometheus, and adds commands that control them.
//
// A constructor of the hive can contribute functions of (table, key string) to the
// group "row-origins": they return the origin of a row, such as a file, or "" if it is
// unknown. Manual requests are logged.
//
// Metrics carry the labels module_id and reconciler. Everything here is safe
// for concurrent use once the hive has started.
package reconcilercell
