package sysctl

import (
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/procsys"
)

// BenchmarkRead reads one parameter, as the watcher does with each declared one every ten seconds.
func BenchmarkRead(b *testing.B) {
	from := procsys.New("/proc/sys")
	for b.Loop() {
		if _, err := from.Read("net.ipv4.conf.lo.forwarding"); err != nil {
			b.Fatal(err)
		}
	}
}
