// Package reconcilercell joins reconcilers to a hive: [Register] puts one into a
// module, [Cell] shows all of them through the API, the status command and
// Prometheus.
//
// Metrics carry the labels module_id and reconciler. Everything here is safe
// for concurrent use once the hive has started.
package reconcilercell
