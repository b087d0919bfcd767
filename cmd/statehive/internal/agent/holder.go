package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/internal/process"
)

// holder is the process that has the lock.
type holder struct {
	pid     int             // 0 if it is in a PID namespace that cannot be seen from here
	process process.Process // none if it has ended or cannot be seen
	uid     uint32
	command string // empty if it cannot be read
}

// holderOf asks the kernel which process listens on a socket.
func holderOf(addr *net.UnixAddr) (holder, error) {
	conn, err := dialHolder(addr)
	if err != nil {
		return holder{}, err
	}
	defer process.Discard(conn)
	peer, err := process.Credentials(conn)
	if err != nil {
		return holder{}, err
	}
	by := holder{pid: int(peer.Pid), uid: peer.Uid, command: commandLine(int(peer.Pid))}
	if p, err := process.Peer(conn); err == nil {
		by.process = p
	}
	return by, nil
}

// dialHolder connects to a socket. It does not wait: if too many other connections do, the error matches EAGAIN.
func dialHolder(addr *net.UnixAddr) (*net.UnixConn, error) {
	dialer := net.Dialer{Control: process.RefuseFiles}
	conn, err := dialer.DialContext(context.Background(), addr.Net, addr.Name)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// keeps returns the error of an agent that may not start because of the holder, or nil if the holder cannot be an agent.
func (h holder) keeps(logger *slog.Logger) error {
	if !h.powerless() {
		return h.refusal()
	}
	logger.Warn("Another user's process has the name that agents lock this network namespace with, but no power over it: this agent goes on without the lock",
		"pid", h.pid, "user", h.uid, "command", h.command)
	return nil
}

// powerless reports whether the holder is another ordinary user's process that may not change
// the network of this process's user namespace. If that cannot be found out, it may. The kernel
// names the process that began to listen. If that has ended or changed its user since, it is no
// agent: another process has inherited the socket, or it now runs a privileged program such as su.
func (h holder) powerless() bool {
	if h.pid == 0 || runsAgents(h.uid) {
		return false
	}
	return h.lacksPower() || h.hasEnded() // it may have ended between two questions, which then had no answer
}

// runsAgents reports whether agents may run as a user.
func runsAgents(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// hasEnded reports whether the holder has ended, or another process has its number by now.
func (h holder) hasEnded() bool {
	now, err := process.Find(h.pid)
	if err != nil { // it may only be hidden in /proc
		return errors.Is(unix.Kill(h.pid, 0), unix.ESRCH)
	}
	return h.process != process.Process{} && now != h.process
}

// lacksPower is powerless for a process of another ordinary user.
func (h holder) lacksPower() bool {
	capable, err := mayChangeNetwork(h.pid)
	if errors.Is(err, unix.ESRCH) {
		return true
	}
	if err != nil || !capable {
		return err == nil
	}
	if uid, err := effectiveUser(h.pid); err != nil || uid != h.uid {
		return true
	}
	if !hasTheMarksOfAnAgent(h.pid) {
		return true
	}
	// Its capabilities may be those of a user namespace that it has created.
	its, err := os.ReadFile("/proc/" + strconv.Itoa(h.pid) + "/uid_map")
	own, ownErr := os.ReadFile("/proc/self/uid_map")
	return err == nil && ownErr == nil && !bytes.Equal(its, own)
}

// hasTheMarksOfAnAgent reports whether a capable process may be an agent. Anybody may run programs that have capabilities by
// their files, such as ping, and let them inherit a socket. An agent has its capabilities from whoever started it until it confines
// itself, which sets no_new_privs; with that, no file gives capabilities. Or it is an agent because it runs the same program as this
// process.
func hasTheMarksOfAnAgent(pid int) bool {
	if confined, err := statusField(pid, "NoNewPrivs"); err != nil || confined == "1" {
		return true
	}
	if given, err := inheritsNetwork(pid); err != nil || given {
		return true
	}
	return process.Ask(func() bool {
		its, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
		own, ownErr := os.Stat("/proc/self/exe")
		return err == nil && ownErr == nil && os.SameFile(its, own)
	})
}

// effectiveUser returns the effective user ID of a process.
func effectiveUser(pid int) (uint32, error) {
	users, err := statusField(pid, "Uid")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(users)
	if len(fields) < 2 {
		return 0, fmt.Errorf("process %d has no effective user", pid)
	}
	uid, err := strconv.ParseUint(fields[1], 10, 32)
	return uint32(uid), err
}

// statusField returns what /proc/PID/status says of a process.
func statusField(pid int, name string) (string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return "", err
	}
	if value, ok := process.Field(string(text), name); ok {
		return value, nil
	}
	return "", fmt.Errorf("the kernel says no %s of process %d", name, pid)
}

// ownersOf returns the users who created the sockets of that name which listen or may yet listen: none or one, and none if the kernel does not say
// so until a time.
func ownersOf(name string, until time.Time) ([]uint32, error) {
	type answer struct {
		users []uint32
		err   error
	}
	got := process.AskUntil(until, func() answer {
		users, err := listOwners(name)
		return answer{users, err}
	})
	return got.users, got.err
}

// listOwners is ownersOf without a limit of time: it looks through all sockets. It needs Linux 5.3.
func listOwners(name string) (users []uint32, err error) {
	// From linux/unix_diag.h.
	const (
		showName, showUser = 0x01, 0x40
		attrName, attrUser = 0, 7
		lenMessage         = 16
	)
	request := make([]byte, 24)
	request[0] = unix.AF_UNIX
	// Bound or listening, but not accepted connections, which have the same name, nor connected ones, which can never listen.
	binary.NativeEndian.PutUint32(request[4:], 1<<unix.BPF_TCP_CLOSE|1<<unix.BPF_TCP_LISTEN)
	binary.NativeEndian.PutUint32(request[12:], showName|showUser)
	dump := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	dump.AddRawData(request)
	abstract := []byte("\x00" + strings.TrimPrefix(name, "@"))
	var malformed error
	err = dump.ExecuteIter(unix.NETLINK_SOCK_DIAG, 0, func(socket []byte) bool {
		if len(socket) < lenMessage || socket[1] != unix.SOCK_STREAM {
			return true
		}
		attributes, err := nl.ParseRouteAttrAsMap(socket[lenMessage:])
		if err != nil {
			malformed = err
			return false
		}
		user := attributes[attrUser].Value
		if bytes.Equal(attributes[attrName].Value, abstract) && len(user) == 4 {
			users = append(users, binary.NativeEndian.Uint32(user))
		}
		return true
	})
	return users, errors.Join(err, malformed)
}

// maxCommand is how many bytes of a command line are read. A process can say that its command line is longer than all memory.
const maxCommand = 200

// commandLine returns the beginning of the quoted command line of a process, or "" if it cannot be read.
func commandLine(pid int) string {
	return process.Ask(func() string { return readCommandLine(pid) })
}

func readCommandLine(pid int) string {
	file, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(file, maxCommand+1))
	if err != nil {
		return ""
	}
	cut := ""
	if len(text) > maxCommand {
		text, cut = text[:maxCommand], "…"
	}
	text = bytes.ReplaceAll(bytes.TrimRight(text, "\x00"), []byte{0}, []byte{' '})
	if len(text) == 0 {
		return ""
	}
	return strconv.Quote(string(text) + cut)
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
