package process

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process of another user decides how long the close of a connection to it takes.
func TestDiscardDoesNotWait(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	here, there := connected(t, "unix", socket)
	lingers, peer := connected(t, "tcp", "127.0.0.1:0")
	if err := lingers.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		_, err = lingers.Write(make([]byte, 1<<20)) // nobody reads it
	}
	var file *os.File
	if file, err = lingers.(*net.TCPConn).File(); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptLinger(int(file.Fd()), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 20}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := there.(*net.UnixConn).WriteMsgUnix([]byte("x"), unix.UnixRights(int(file.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	for _, own := range []interface{ Close() error }{file, lingers} { // the connection on its way has the last reference
		if err := own.Close(); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	Discard(here)
	if took := time.Since(began); took > Patience {
		t.Errorf("it took %v", took)
	}
	_ = peer.Close() // now it ends
}

// connected returns the ends of a connection.
func connected(t *testing.T, network, address string) (here, there net.Conn) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if here, err = new(net.Dialer).DialContext(t.Context(), network, listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if there, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return here, there
}
