package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the abstract unix socket that an agent listens on while it runs. The
// names of such sockets are scoped to the network namespace, so one agent at a time
// has it there, and the kernel frees it however the agent ends.
const lockName = "@statehive-agent"

// lockTries bounds how often the lock is tried for when its holder ends meanwhile.
const lockTries = 10

// namespaceLock makes this process the only agent of its network namespace.
type namespaceLock struct {
	listener net.Listener
	stop     context.CancelFunc
	ended    chan struct{} // closed when nobody is answered any more
}

// answerPause is how long nobody is answered after that has failed, as it does for
// want of file descriptors.
const answerPause = 100 * time.Millisecond

// lockNamespace takes the lock of that name. If another process has it, the error
// says which. The lock is nil if a process has it that cannot be an agent of this namespace:
// other users cannot keep the agent from starting.
func lockNamespace(name string, logger *slog.Logger) (*namespaceLock, error) {
	addr := &net.UnixAddr{Name: name, Net: "unix"}
	var err error
	for range lockTries {
		var listener *net.UnixListener
		if listener, err = net.ListenUnix("unix", addr); err == nil {
			return newNamespaceLock(listener), nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("lock the network namespace: %w", err)
		}
		var by holder
		if by, err = holderOf(addr); err == nil && by.powerless() {
			logger.Warn("Another user's process has the name that agents lock this network namespace with, but no power over it: this agent goes on without the lock",
				"pid", by.pid, "user", by.uid, "command", by.command)
			return nil, nil //nolint:nilnil // nil is a lock of nothing
		} else if err == nil {
			return nil, by.refusal()
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			break
		}
	}
	return nil, fmt.Errorf("an agent runs already in this network namespace, but which process it is cannot be found out: %w", err)
}

func newNamespaceLock(listener net.Listener) *namespaceLock {
	ctx, stop := context.WithCancel(context.Background())
	l := &namespaceLock{listener, stop, make(chan struct{})}
	go l.answer(ctx)
	return l
}

// answer closes the connections of those who ask who has the lock: the kernel tells
// them, and those that nobody accepts would pile up.
func (l *namespaceLock) answer(ctx context.Context) {
	defer close(l.ended)
	for {
		conn, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_ = conn.Close() // nothing was exchanged
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(answerPause):
		}
	}
}

// Close gives up the lock, if there is one.
func (l *namespaceLock) Close() error {
	if l == nil {
		return nil
	}
	l.stop()
	err := l.listener.Close()
	<-l.ended
	return err
}

// holder is the process that has the lock.
type holder struct {
	pid     int // 0 if it is in a PID namespace that cannot be seen from here
	uid     uint32
	command string // empty if it cannot be read
}

// holderOf asks the kernel who listens on a socket.
func holderOf(addr *net.UnixAddr) (holder, error) {
	conn, err := net.DialUnix("unix", nil, addr)
	if err != nil {
		return holder{}, err
	}
	defer func() { _ = conn.Close() }() // nothing was exchanged
	raw, err := conn.SyscallConn()
	if err != nil {
		return holder{}, err
	}
	var peer *unix.Ucred
	var optErr error
	err = raw.Control(func(fd uintptr) {
		peer, optErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, optErr); err != nil {
		return holder{}, err
	}
	return holder{pid: int(peer.Pid), uid: peer.Uid, command: commandLine(int(peer.Pid))}, nil
}

// powerless reports whether the holder is another ordinary user's process that may not change the
// network of this process's user namespace. What is not known counts as power.
func (h holder) powerless() bool {
	if h.pid == 0 || h.uid == 0 || h.uid == uint32(os.Geteuid()) { //nolint:gosec // never negative on Linux
		return false
	}
	capable, err := mayChangeNetwork(h.pid)
	if err != nil || !capable {
		return err == nil
	}
	// It may have all power over a user namespace that it has made.
	its, err := os.ReadFile("/proc/" + strconv.Itoa(h.pid) + "/uid_map")
	own, ownErr := os.ReadFile("/proc/self/uid_map")
	return err == nil && ownErr == nil && !bytes.Equal(its, own)
}

// commandLine returns that of a process, quoted, or nothing.
func commandLine(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	text = bytes.ReplaceAll(bytes.TrimRight(text, "\x00"), []byte{0}, []byte{' '})
	if err != nil || len(text) == 0 {
		return ""
	}
	return strconv.Quote(string(text))
}

// refusal is the error of an agent that may not start because of the holder.
func (h holder) refusal() error {
	who, stop := fmt.Sprintf("process %d", h.pid), fmt.Sprintf("(kill %d)", h.pid)
	if h.pid == 0 {
		who, stop = "a process of another PID namespace, such as a container that shares this network,", "where it was started"
	}
	who += fmt.Sprintf(" of user %d", h.uid)
	if h.command != "" {
		who += " (" + h.command + ")"
	}
	return fmt.Errorf("an agent runs already in this network namespace: %s. Two would undo each other's changes: "+
		"stop that one %s, or run this one in another network namespace, such as that of --sandbox", who, stop)
}
