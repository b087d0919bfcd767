// Package route is the built-in target for IPv4 and IPv6 routes.
package route
