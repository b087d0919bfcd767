package managedfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// notifier receives the kernel's notifications of changes in directories (inotify). Directories
// are watched by descriptor: nothing is looked up by path under a lock, so one that does not
// answer does not keep others from being watched. Its methods are safe for concurrent use.
type notifier struct {
	file   *os.File
	events chan notification
	errors chan error // at most one is sent after which no events follow, unless it is errLost
	closed chan struct{}
	ended  chan struct{} // closed when no more is sent
}

// notification is a change in a watched directory.
type notification struct {
	watch int32
	name  string // of what has changed; empty if it is the directory itself
	ended bool   // the directory was removed, moved or unmounted
}

// errLost matches the error for notifications that were lost, because there were too many.
var errLost = errors.New("the kernel has dropped notifications")

// ends are the kinds of notifications after which a path leads to another directory.
const ends = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_UNMOUNT | unix.IN_IGNORED

// newNotifier returns a notifier, to be closed.
func newNotifier() (*notifier, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	n := &notifier{
		file: os.NewFile(uintptr(fd), "inotify"), events: make(chan notification), errors: make(chan error),
		closed: make(chan struct{}), ended: make(chan struct{}),
	}
	go n.receive()
	return n, nil
}

// close ends all watches, except those that are being added: they end when that returns.
func (n *notifier) close() {
	close(n.closed)
	_ = n.file.Close() // it was only read
	<-n.ended
}

// descriptor returns a copy of the descriptor, which stays valid after close.
func (n *notifier) descriptor() (fd int, err error) {
	raw, err := n.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(controlErr, err)
}

// add watches an open directory. Adding it again returns the same watch.
func (n *notifier) add(dir int) (watch int32, err error) {
	own, err := n.descriptor()
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(own) }() // nothing was written to it
	added, err := unix.InotifyAddWatch(own, "/proc/self/fd/"+strconv.Itoa(dir),
		unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVE|unix.IN_MODIFY|unix.IN_ATTRIB|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ONLYDIR)
	return int32(added), err
}

// remove ends a watch. The kernel may have ended it already.
func (n *notifier) remove(watch int32) {
	if own, err := n.descriptor(); err == nil {
		_, _ = unix.InotifyRmWatch(own, uint32(watch))
		_ = unix.Close(own)
	}
}

// receive sends notifications until the notifier is closed or cannot be read.
func (n *notifier) receive() {
	defer close(n.ended)
	for buffer := make([]byte, 64<<10); ; {
		size, err := n.file.Read(buffer)
		if err != nil {
			n.fail(fmt.Errorf("read: %w", err))
			return
		}
		for data := buffer[:size]; len(data) >= unix.SizeofInotifyEvent; {
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(data[12:]))
			if !n.pass(data[:end]) {
				return
			}
			data = data[end:]
		}
	}
}

// pass sends a notification, and reports whether the notifier is still open.
func (n *notifier) pass(event []byte) bool {
	mask := binary.NativeEndian.Uint32(event[4:])
	if mask&unix.IN_Q_OVERFLOW != 0 {
		return n.fail(errLost)
	}
	name := strings.TrimRight(string(event[unix.SizeofInotifyEvent:]), "\x00")
	select {
	case n.events <- notification{int32(binary.NativeEndian.Uint32(event)), name, mask&ends != 0}:
		return true
	case <-n.closed:
		return false
	}
}

func (n *notifier) fail(err error) bool {
	select {
	case n.errors <- err:
		return true
	case <-n.closed:
		return false
	}
}
