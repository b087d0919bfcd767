package inspect

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/statehive/statehive/internal/process"
)

// overflowUID is what a process in a user namespace sees in place of users that are not mapped into it.
const overflowUID = 65534

// peerListener accepts connections of some users only.
type peerListener struct {
	net.Listener
	allowed func(uid uint32) bool
	logger  *slog.Logger
}

// Accept returns the next connection of a user who is allowed.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(conn)
		if err == nil && l.allowed(uid) {
			return &peerConn{conn.(*net.UnixConn), uid}, nil
		}
		l.logger.Warn("Refused a connection: only root and the agent's own user may use the API", "uid", uid, "error", err)
		_ = conn.Close() // nothing was exchanged
	}
}

// peerConn is a connection whose peer is known.
type peerConn struct {
	*net.UnixConn
	uid uint32
}

// UID returns the user at the other end: users have limits, and root is never kept out by others.
func (c *peerConn) UID() uint32 { return c.uid }

func peerUID(conn net.Conn) (uint32, error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("the API is for unix sockets, this is %T", conn)
	}
	peer, err := process.Credentials(c)
	if err != nil {
		return 0, err
	}
	return peer.Uid, nil
}

// killed returns an error if the process at the other end was killed, and only cannot end yet: the kernel accepts connections to it,
// but nobody answers.
func killed(conn net.Conn) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	peer, err := process.Peer(c)
	if err != nil {
		return nil //nolint:nilerr // it is not known to be
	}
	if waits, killed := peer.Killed(); killed {
		return &untrustedError{fmt.Sprintf("process %d, which listens there, was killed and cannot end (%s)", peer.PID, waits)}
	}
	return nil
}

// untrustedError is the reason not to talk to whatever listens on a socket.
type untrustedError struct{ reason string }

func (e *untrustedError) Error() string { return e.reason }

// dialTrusted connects to a socket on which only processes that this user trusts can listen.
func dialTrusted(ctx context.Context, socket string) (net.Conn, error) {
	dir := filepath.Dir(socket)
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	own := allowedUIDs()
	trusted := func(uid uint32) bool { return own(uid) || os.Getuid() == 0 && uid == owner }
	if !trusted(owner) {
		return nil, &untrustedError{fmt.Sprintf("the directory %s belongs to uid %d, who could listen in the agent's place", dir, owner)}
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return nil, &untrustedError{fmt.Sprintf("others may write to the directory %s (mode %v) and could listen in the agent's place", dir, info.Mode())}
	}
	dialer := net.Dialer{Control: process.RefuseFiles}
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	uid, err := peerUID(conn)
	if err == nil && !trusted(uid) {
		err = &untrustedError{fmt.Sprintf("uid %d listens there, expected root or uid %d", uid, os.Getuid())}
	}
	if err == nil {
		err = killed(conn)
	}
	if err != nil {
		process.Discard(conn)
		return nil, err
	}
	return conn, nil
}

// allowedUIDs accepts root and this user, as they are seen in the user namespace of this process.
func allowedUIDs() func(uint32) bool {
	uidMap, err := os.ReadFile("/proc/self/uid_map")
	return allowed(uint32(os.Getuid()), err == nil && mapsAll(string(uidMap)))
}

// allowed does not count the overflow uid as one's own where it may be anybody's.
func allowed(own uint32, allMapped bool) func(uint32) bool {
	return func(uid uint32) bool {
		if uid == overflowUID && !allMapped {
			return false
		}
		return uid == 0 || uid == own
	}
}

// mapsAll reports whether this process sees all users under their own numbers, as it does outside of user namespaces.
func mapsAll(uidMap string) bool {
	fields := strings.Fields(uidMap)
	return len(fields) == 3 && fields[0] == "0" && fields[1] == "0" && fields[2] == "4294967295"
}
