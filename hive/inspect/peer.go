package inspect

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
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
			return conn, nil
		}
		l.logger.Warn("Refused a connection: only root and the agent's own user may use the API", "uid", uid, "error", err)
		_ = conn.Close() // nothing was exchanged
	}
}

func peerUID(conn net.Conn) (uint32, error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("the API is for unix sockets, this is %T", conn)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var optErr error
	err = raw.Control(func(fd uintptr) {
		peer, optErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, optErr); err != nil {
		return 0, err
	}
	return peer.Uid, nil
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

// mapsAll says whether all users are seen as they are: there is no user namespace around.
func mapsAll(uidMap string) bool {
	fields := strings.Fields(uidMap)
	return len(fields) == 3 && fields[0] == "0" && fields[1] == "0" && fields[2] == "4294967295"
}
