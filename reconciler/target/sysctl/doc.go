// Package sysctl is the built-in target for kernel parameters below /proc/sys.
package sysctl
