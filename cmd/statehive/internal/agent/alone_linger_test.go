package agent

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/internal/process"
	"github.com/statehive/statehive/internal/process/processtest"
)

// sendAlong sends a file along on a connection, which then has the last reference to it.
func sendAlong(t *testing.T, conn net.Conn, file *os.File) error {
	t.Helper()
	_, _, err := conn.(*net.UnixConn).WriteMsgUnix([]byte("x"), unix.UnixRights(int(file.Fd())), nil)
	if err == nil {
		err = file.Close()
	}
	return err
}

// withDescriptor calls do with the descriptor of a socket.
func withDescriptor(t *testing.T, socket syscall.Conn, do func(fd int) error) {
	t.Helper()
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(raw.Control(func(fd uintptr) { err = do(int(fd)) }), err); err != nil {
		t.Fatal(err)
	}
}

// wantFilesRefused checks that files that are sent along on a socket are refused, where the kernel can.
func wantFilesRefused(t *testing.T, socket syscall.Conn) {
	t.Helper()
	withDescriptor(t, socket, func(fd int) error {
		takes, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS)
		switch {
		case errors.Is(err, unix.ENOPROTOOPT):
			return nil // before Linux 6.16
		case err == nil && takes != 0:
			t.Error("files that are sent along are taken")
		}
		return err
	})
}

// takeFiles has a listener take files, as before Linux 6.16.
func takeFiles(t *testing.T, listener net.Listener) {
	t.Helper()
	withDescriptor(t, listener.(*net.UnixListener), func(fd int) error {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 1); !errors.Is(err, unix.ENOPROTOOPT) {
			return err
		}
		return nil
	})
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
	wantFilesRefused(t, lock.listener.(*net.UnixListener))
	takeFiles(t, lock.listener)
	sent := 0
	var files []*os.File
	for range 5 {
		files = append(files, processtest.Lingering(t))
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

// The holder sends along a connection that lingers, and keeps no other reference to it.
func TestTheHolderOfTheLockCannotHoldUpTheStart(t *testing.T) {
	name := testLock(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	dialed, err := dialHolder(&net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	wantFilesRefused(t, dialed)
	_ = dialed.Close()
	if conn, err := listener.Accept(); err == nil {
		_ = conn.Close()
	}
	file := processtest.Lingering(t)
	for tries := 0; ; tries++ {
		sent := make(chan error, 1)
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				t.Cleanup(func() { _ = conn.Close() })
				err = sendAlong(t, conn, file)
			}
			sent <- err
		}()
		began := time.Now()
		if _, err := lockNamespace(name, slog.New(slog.DiscardHandler)); err == nil {
			t.Error("a second one has it")
		}
		if took := time.Since(began); took > 4*process.Patience {
			t.Errorf("to find out who has the lock took %v", took)
		}
		err := <-sent
		if err == nil || errors.Is(err, unix.EPERM) { // Linux 6.16 refuses it
			return
		}
		if !errors.Is(err, unix.EPIPE) || tries == 100 { // it was too late
			t.Fatal(err)
		}
	}
}

// At a start not only the first name of the lock counts. Anybody can connect more often than an agent accepts.
func TestAnAgentThatIsConnectedToTooOftenIsStillFound(t *testing.T) {
	name := testLock(t)
	second := lockNames(name)[1]
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", second) // it has the name as an agent, and accepts nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for err == nil {
		var conn *net.UnixConn
		if conn, err = dialHolder(&net.UnixAddr{Name: second, Net: "unix"}); err == nil {
			err = conn.Close()
		}
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	lock, err := lockNamespace(name, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Error("a second agent has started")
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

// Other users can make it take minutes to find out who has a name, with very many sockets.
func TestTheStartDoesNotWaitLongForWhoHasTheLock(t *testing.T) {
	name := testLock(t)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: name}) // and does not listen
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	for until, started := range map[time.Duration]bool{lockPatience: false, 0: true} {
		if _, err := takeName(name, time.Now().Add(until), slog.New(slog.DiscardHandler)); (err == nil) != started {
			t.Errorf("after %v: %v", until, err)
		}
	}
}
