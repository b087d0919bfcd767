package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/internal/process"
)

// lockName is the abstract unix socket that an agent listens on while it runs. The
// names of such sockets are scoped to the network namespace, so one agent at a time
// has it there, and the kernel frees it however the agent ends.
const lockName = "@statehive-agent"

// lockNames returns the names of the lock. An agent has the first one that no killed agent keeps. Every agent looks at all of them, so that one
// that has another name counts, too, when the first one is free again.
func lockNames(name string) []string {
	names := []string{name}
	for i := 2; i <= 8; i++ {
		names = append(names, fmt.Sprintf("%s-%d", name, i))
	}
	return names
}

const (
	// lockTries bounds the attempts to take the lock while its holders come and go.
	lockTries = 10
	// lockPatience bounds the time in which the kernel is asked for who has the names of the lock. Other users can make it take minutes to answer.
	lockPatience = 5 * time.Second
)

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
// other users cannot keep the agent from starting. Agents that were killed and cannot end do not count.
func lockNamespace(name string, logger *slog.Logger) (*namespaceLock, error) {
	until := time.Now().Add(lockPatience)
	for i, own := range lockNames(name) {
		listener, err := takeName(own, until, logger)
		var killed *hangingError
		if errors.As(err, &killed) {
			killed.warn(logger)
			continue
		}
		if err != nil || listener == nil {
			return nil, err
		}
		if err := anotherAgent(slices.Delete(lockNames(name), i, i+1), until); err != nil {
			return nil, errors.Join(err, process.Ask(listener.Close))
		}
		return newNamespaceLock(listener), nil
	}
	logger.Warn("Killed agents have all names that agents lock this network namespace with: this agent goes on without the lock")
	return nil, nil //nolint:nilnil // nil is a lock of nothing
}

// anotherAgent returns the error of an agent that may not start because another one has one of these names.
func anotherAgent(names []string, until time.Time) error {
	for _, name := range names {
		if err := heldByAgent(name, until); err != nil {
			return err
		}
	}
	return nil
}

// heldByAgent is anotherAgent for one name, which nobody needs to have.
func heldByAgent(name string, until time.Time) error {
	for range lockTries {
		by, err := holderOf(&net.UnixAddr{Name: name, Net: "unix"})
		if errors.Is(err, unix.EAGAIN) { // so many connections wait that there is no room for one more
			if _, err := askNobody(name, until, err); err != nil {
				return err
			}
			continue // the kernel's list may leave some out while others are made and closed
		}
		if err == nil && !by.powerless() {
			if _, killed := by.process.Killed(); !killed {
				return by.refusal()
			}
		}
		break // an agent always listens
	}
	return nil
}

// askNobody finds out whether an agent may have a name at which nobody answers, and returns an error then. Otherwise it returns the users who have it,
// if they can be seen in time: not those whose socket is connected, nor who free the name now and then.
func askNobody(name string, until time.Time, why error) (others []uint32, err error) {
	users, err := ownersOf(name, until)
	if err != nil {
		return nil, fmt.Errorf("an agent may run already in this network namespace, but nobody answers (%w), and who has its lock cannot be found out: %w", why, err)
	}
	if slices.ContainsFunc(users, runsAgents) {
		return nil, fmt.Errorf("an agent runs already in this network namespace, but which process it is cannot be found out: %w", why)
	}
	return users, nil
}

// hangingError is the reason to go on without a lock: its holder was killed and cannot end.
type hangingError struct {
	pid         int
	what, waits string
}

func (e *hangingError) Error() string {
	return fmt.Sprintf("%s is held by process %d, which was killed and cannot end: %s", e.what, e.pid, e.waits)
}

func (e *hangingError) warn(logger *slog.Logger) {
	logger.Warn("An agent was killed but cannot end, since the kernel waits for something: this agent takes its place. What the other one has begun may still be done",
		"pid", e.pid, "has", e.what, "waits", e.waits)
}

// takeName listens on a name of the lock. It returns nil if a process has it that cannot be an agent of this namespace, and a *hangingError
// if a killed one has it.
func takeName(name string, until time.Time, logger *slog.Logger) (net.Listener, error) {
	addr := &net.UnixAddr{Name: name, Net: "unix"}
	config := net.ListenConfig{Control: process.RefuseFiles}
	var err error
	var others []uint32 // who have the name and do not answer
	var agent error     // one may have it: the kernel's list may leave it out while others are made and closed
	for try := range lockTries {
		var listener net.Listener
		if listener, err = config.Listen(context.Background(), addr.Net, addr.Name); err == nil {
			return listener, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("lock the network namespace: %w", err)
		}
		var by holder
		if by, err = holderOf(addr); err == nil {
			if by.hasEnded() && try < lockTries-1 { // the name is free, unless another process has inherited the socket
				continue
			}
			// This comes first because another user can have processes killed one after another.
			if err = by.keeps(logger); err == nil {
				return nil, nil //nolint:nilnil // nil is a listener of nothing
			}
			if _, killed := by.process.Killed(); !killed {
				return nil, err
			}
			if waits, hangs := by.process.Hangs(); hangs {
				return nil, &hangingError{by.pid, "the lock of the network namespace", waits}
			}
			continue
		}
		if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EAGAIN) {
			return nil, fmt.Errorf("find out who has the lock of the network namespace: %w", err)
		}
		seen, mayBe := askNobody(name, until, err)
		others, agent = append(others, seen...), cmp.Or(agent, mayBe)
		err = nil
	}
	if err := cmp.Or(err, agent); err != nil {
		return nil, err
	}
	logger.Warn("Others have the name that agents lock this network namespace with, but no agent does: this agent goes on without the lock", "users", slices.Compact(others))
	return nil, nil //nolint:nilnil // the same
}

func newNamespaceLock(listener net.Listener) *namespaceLock {
	ctx, stop := context.WithCancel(context.Background())
	l := &namespaceLock{listener, stop, make(chan struct{})}
	go l.answer(ctx)
	return l
}

// maxDiscarded is how many connections may take long to close: see [process.Discard].
const maxDiscarded = 32

// answer accepts and closes the connections of processes that look for the holder of the lock.
// The kernel tells them; connections that are not accepted would pile up.
func (l *namespaceLock) answer(ctx context.Context) {
	defer close(l.ended)
	discarded := make(chan struct{}, maxDiscarded)
	for {
		select {
		case <-ctx.Done():
			return
		case discarded <- struct{}{}:
		}
		conn, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		go func() {
			if err == nil {
				_ = conn.Close() // nothing was exchanged
			}
			<-discarded
		}()
		select {
		case <-ctx.Done():
			return
		case <-time.After(answerPause):
		}
	}
}

// Close gives up the lock, if there is one. It does not wait long for connections that nobody has accepted: they may take long to close, but the
// name is free before.
func (l *namespaceLock) Close() error {
	if l == nil {
		return nil
	}
	l.stop()
	return process.Ask(func() error {
		err := l.listener.Close()
		<-l.ended
		return err
	})
}
