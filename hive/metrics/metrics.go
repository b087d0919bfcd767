// Package metrics serves Prometheus metrics from a registry of its own.
package metrics

import (
	"net"

	"github.com/statehive/statehive/hive/cell"
)

// DefaultPrefix begins the names of metrics unless another is chosen.
const DefaultPrefix Prefix = "statehive"

// Prefix begins the names of all metrics of the hive. It is injectable.
type Prefix string

// Listener is an open socket that was handed to the process; provide one to have the server use it.
type Listener struct{ net.Listener }

// Config of the server.
type Config struct {
	// Address is where HTTP is served; empty for nowhere.
	Address string `flag:"metrics-address" usage:"address to serve /metrics and /healthz on (empty: off)"`
}

// Cell provides *prometheus.Registry, prometheus.Registerer, prometheus.Gatherer and Prefix, and serves /metrics and /healthz.
func Cell(prefix Prefix) cell.Cell { return cell.Group() }
