package sysctl

import (
	"strings"
)

// Device returns the name of the device that a sysctl belongs to, such as
// eth0 for net.ipv4.conf.eth0.forwarding; empty if it belongs to none.
func (s Sysctl) Device() string {
	name, err := dotted(s.Name)
	if err != nil {
		return ""
	}
	parts := strings.Split(pathOf(name), "/")
	if len(parts) < 5 || parts[0] != "net" || parts[2] != "conf" && parts[2] != "neigh" {
		return ""
	}
	if device := parts[3]; device != "all" && device != "default" {
		return device
	}
	return ""
}
