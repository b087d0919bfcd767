// Package address is the built-in target for addresses of network devices.
package address
