package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the abstract unix socket that an agent listens on while it runs. The
// names of such sockets are scoped to the network namespace, so one agent at a time
// has it there, and the kernel frees it however the agent ends.
const lockName = "@statehive-agent"

// lockTries bounds the attempts to take the lock while its holders come and go.
const lockTries = 10

// namespaceLock makes this process the only agent of its network namespace.
type namespaceLock struct {
	listener net.Listener
	stop     context.CancelFunc
	ended    chan struct{} // closed when the lock has stopped accepting connections
}

// answerPause is the pause after accepting a connection, since everybody can connect, or after failing to,
// for instance for lack of file descriptors.
const answerPause = 20 * time.Millisecond

// lockNamespace takes the lock of that name. If another agent has it, the error names its
// process. If a process has it that cannot be an agent of this namespace, the lock is nil:
// other users cannot keep the agent from starting.
func lockNamespace(name string, logger *slog.Logger) (*namespaceLock, error) {
	addr := &net.UnixAddr{Name: name, Net: "unix"}
	var err error
	var others []uint32 // other users who had bound the name but did not listen
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
		// In each try: the owner is not seen while it frees the name and takes it again.
		if uid, err := ownerOf(name); err == nil && uid != 0 && uid != uint32(os.Geteuid()) { //nolint:gosec // never negative on Linux
			others = append(others, uid)
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			break
		}
	}
	// An agent always listens, so a socket that does not is not an agent's.
	if len(others) > 0 {
		logger.Warn("Another user has the name that agents lock this network namespace with, but answers nobody: this agent goes on without the lock", "user", others[0])
		return nil, nil //nolint:nilnil // the same
	}
	return nil, fmt.Errorf("an agent runs already in this network namespace, but which process it is cannot be found out: %w", err)
}

func newNamespaceLock(listener net.Listener) *namespaceLock {
	ctx, stop := context.WithCancel(context.Background())
	l := &namespaceLock{listener, stop, make(chan struct{})}
	go l.answer(ctx)
	return l
}

// answer accepts and closes the connections of processes that look for the holder of the lock.
// The kernel tells them; connections that are not accepted would pile up.
func (l *namespaceLock) answer(ctx context.Context) {
	defer close(l.ended)
	for {
		conn, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_ = conn.Close() // nothing was exchanged
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
