package sysctl

import "testing"

// BenchmarkRead reads one parameter, as the watcher does with each declared one every ten seconds.
func BenchmarkRead(b *testing.B) {
	from := files{"/proc/sys"}
	for b.Loop() {
		if _, err := from.read("net.ipv4.conf.lo.forwarding"); err != nil {
			b.Fatal(err)
		}
	}
}
