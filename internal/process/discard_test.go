package process_test

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/internal/process"
	"github.com/statehive/statehive/internal/process/processtest"
)

// A process of another user decides how long the close of a connection to it takes.
func TestDiscardDoesNotWait(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	here, err := new(net.Dialer).DialContext(t.Context(), "unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = there.Close() }()
	lingers := processtest.Lingering(t)
	_, _, err = there.(*net.UnixConn).WriteMsgUnix([]byte("x"), unix.UnixRights(int(lingers.Fd())), nil)
	if err = errors.Join(err, lingers.Close()); err != nil { // what was sent along is the last reference
		t.Fatal(err)
	}
	began := time.Now()
	process.Discard(here)
	if took := time.Since(began); took > process.Patience {
		t.Errorf("it took %v", took)
	}
}
