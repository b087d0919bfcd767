package metrics_test

import (
	"net"
	"testing"

	"github.com/statehive/statehive/hive/metrics"
)

// The kernel keeps what clients of multipath TCP do not read for a minute after the end of their connections.
func TestConnectionsAreNotMultipath(t *testing.T) {
	listener, err := metrics.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	var dialer net.Dialer
	dialer.SetMultipathTCP(true)
	conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if is, err := conn.(*net.TCPConn).MultipathTCP(); err != nil || is {
		t.Errorf("multipath: %t, %v", is, err)
	}
}
