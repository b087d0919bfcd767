package agent

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/internal/process"
)

// lingering returns a TCP connection that takes 20 s to close: its peer does not read.
func lingering(t *testing.T) *os.File {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	peer, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() }) // then it closes
	if err := conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = conn.Write(make([]byte, 1<<20))
	}
	file, err := conn.(*net.TCPConn).File()
	if err == nil {
		err = unix.SetsockoptLinger(int(file.Fd()), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 20})
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// sendAlong sends a file along on a connection, which then has the last reference to it.
func sendAlong(t *testing.T, conn net.Conn, file *os.File) error {
	t.Helper()
	_, _, err := conn.(*net.UnixConn).WriteMsgUnix([]byte("x"), unix.UnixRights(int(file.Fd())), nil)
	if err == nil {
		err = file.Close()
	}
	return err
}

// refuseFiles sets whether files sent along are refused, and reports whether the kernel can.
func refuseFiles(t *testing.T, socket net.Listener, refuse bool) bool {
	t.Helper()
	raw, err := socket.(*net.UnixListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	value := 1
	if refuse {
		value = 0
	}
	if controlErr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS, value) }); controlErr != nil {
		t.Fatal(controlErr)
	}
	return !errors.Is(err, unix.ENOPROTOOPT)
}

// The kernel closes what others send along together with the connection.
func TestConnectionsThatTakeLongToCloseDoNotHoldUpTheEnd(t *testing.T) {
	name := testLock(t)
	lock, err := lockNamespace(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	connect := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	if can := refuseFiles(t, lock.listener, true); can {
		file := lingering(t)
		if err := sendAlong(t, connect(), file); !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EPIPE) { // it may have been closed already
			t.Errorf("files that are sent along are not refused: %v", err)
		}
	}
	refuseFiles(t, lock.listener, false)
	sent := 0
	var files []*os.File
	for range 5 {
		files = append(files, lingering(t))
	}
	for _, file := range files {
		if err := sendAlong(t, connect(), file); err == nil {
			sent++
		} else if !errors.Is(err, unix.EPIPE) { // it was closed already
			t.Error(err)
		}
	}
	if sent == 0 {
		t.Error("all connections were closed before anything was sent")
	}
	began := time.Now()
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 4*process.Patience {
		t.Errorf("to give up the lock took %v", took)
	}
}

func TestTheHolderOfTheLockCannotHoldUpTheStart(t *testing.T) {
	name := testLock(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	sent := make(chan struct{})
	file := lingering(t)
	go func() {
		defer close(sent)
		if conn, err := listener.Accept(); err == nil {
			_ = sendAlong(t, conn, file) // it may be refused
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	began := time.Now()
	if _, err := lockNamespace(name, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a second one has it")
	}
	if took := time.Since(began); took > 4*process.Patience {
		t.Errorf("to find out who has the lock took %v", took)
	}
	<-sent
}
