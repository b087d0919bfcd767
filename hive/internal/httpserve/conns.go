package httpserve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxConns keeps clients from using up the process's file descriptors. There are fewer connections if the process may
	// have fewer than four times as many.
	maxConns = 500
	// maxRequests is how many requests of a user other than root are answered at once.
	maxRequests = 40
	// maxStreams is how many answers to a user may go on and on.
	maxStreams = 16
	// maxLarge is how many requests of a user may have bodies larger than usual: they are in memory.
	maxLarge = 2
	// youth is how long a connection of a network may be silent before it has to give way. The request of a prompt client arrives a
	// moment after its connection, which would be the only silent one in a flood of requests.
	youth = 20 * time.Millisecond
	// receiveTime is how long a client of a network may take to receive what the server writes: a prompt one needs some round trips.
	receiveTime = 100 * time.Millisecond
	// maxLooks is how many connections are asked for what the server has not come to read, for one more.
	maxLooks = 8
	// maxWait is how long a new connection of a network may wait for one of the others to end, while all are being answered. No
	// further ones are accepted meanwhile.
	maxWait = time.Second
	// unreadBuffer is about how many bytes the kernel holds for a client of a network that does not read, apart from up to 64 KiB in one
	// packet. The kernel doubles it, and counts what it takes itself.
	unreadBuffer = 16 << 10
	// deliveryLook is how often it is looked whether a client has received the end of its answers.
	deliveryLook = 20 * time.Millisecond
	// slowAnswer is how long a request of a network may take while there are too many.
	slowAnswer = 5 * time.Second
)

// Peer is a connection of which it is known who is at the other end. There is always room for root.
type Peer interface {
	// UID returns the user.
	UID() uint32
}

// conns are the open connections. When there are too many, a new one takes the place of
// one that waits for its client, so that no number of those keeps others out. Connections of a network end after
// one request when there are many, so that no number of busy ones does either.
type conns struct {
	max   int
	mu    sync.Mutex
	open  []*client     // in the order in which they came
	freed chan struct{} // holds a value when a connection has ended or waits for its client
}

func newConns() *conns {
	var descriptors unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &descriptors); err != nil {
		descriptors.Cur = unix.RLIM_INFINITY
	}
	return &conns{max: connsFor(descriptors.Cur), freed: make(chan struct{}, 1)}
}

// connsFor returns how many connections there may be in a process that may have so many descriptors.
func connsFor(descriptors uint64) int { return int(min(maxConns, max(1, descriptors/4))) }

// client is an open connection.
type client struct {
	net.Conn
	uid     uint32
	known   bool // whose it is
	root    bool
	network bool // anyone may be at the other end
	all     *conns
	waits   time.Time // since when a request has been waited for: since it was added, or its last answer
	since   time.Time // when the request in hand was handed to the handler; zero: there is none
	limits  Limits    // of that request
	served  bool      // a request has been answered

	closing   sync.Once
	failed    atomic.Bool  // an answer could not be sent
	receiving atomic.Bool  // the request is not complete
	sending   atomic.Int64 // since when, in Unix nanoseconds, an answer is being sent; 0: none is
}

func (c *conns) newClient(conn net.Conn) *client {
	one := &client{Conn: conn, all: c}
	var peer Peer
	if peer, one.known = conn.(Peer); one.known {
		one.uid = peer.UID()
		one.root = one.uid == 0
	}
	_, one.network = conn.LocalAddr().(*net.TCPAddr)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(unreadBuffer) // this fails only if it is closed already
	}
	return one
}

// Close closes the connection. What the kernel holds for a client of a network is counted as a connection until the client has received it: it
// may never do that.
func (c *client) Close() error {
	conn, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return c.end()
	}
	c.closing.Do(func() {
		if c.failed.Load() { // the client learns that the answer is not complete
			_ = conn.SetLinger(0)
			_ = c.end() // the error of Write says more
			return
		}
		c.sending.Store(time.Now().UnixNano())
		go func() {
			c.deliver(conn)
			_ = c.end() // nothing is lost that was promised
		}()
	})
	return nil
}

// deliver waits until the client has received the end of its answers, for at most as long as an answer may take. What it has not received by then
// is dropped.
func (c *client) deliver(conn *net.TCPConn) {
	_ = conn.CloseWrite() // an error shows in the state
	look := time.NewTicker(deliveryLook)
	defer look.Stop()
	for until := time.Now().Add(writeTimeout); undelivered(conn); <-look.C {
		if time.Now().After(until) {
			_ = conn.SetLinger(0)
			return
		}
	}
}

// undelivered reports whether the end of a connection has been sent and not acknowledged.
func undelivered(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	err = raw.Control(func(fd uintptr) { // it fails if the connection has given way
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		is = err == nil && (info.State == unix.BPF_TCP_FIN_WAIT1 || info.State == unix.BPF_TCP_CLOSING || info.State == unix.BPF_TCP_LAST_ACK)
	})
	return err == nil && is
}

// end closes the connection at once, and makes room for another one.
func (c *client) end() error {
	err := c.Conn.Close()
	c.all.remove(c)
	return err
}

// giveWay closes the connection while mu is held. The kernel drops at once what it would otherwise hold for the client, which is not counted as a
// connection any more.
func (c *client) giveWay() {
	if conn, ok := c.Conn.(*net.TCPConn); ok {
		_ = conn.SetLinger(0) // this fails only if it is closed already
	}
	_ = c.Conn.Close() // nothing is lost that was promised
	c.all.drop(c)
}

// Write notes since when it waits for the client, and whether it fails.
func (c *client) Write(b []byte) (int, error) {
	c.sending.Store(time.Now().UnixNano())
	defer c.sending.Store(0)
	n, err := c.Conn.Write(b)
	if err != nil {
		c.failed.Store(true)
	}
	return n, err
}

// unreceived reports whether the client has to read before the handler can go on, or the connection can end.
func (c *client) unreceived() bool {
	since := c.sending.Load()
	return since != 0 && (!c.network || time.Now().UnixNano()-since > int64(receiveTime))
}

// silent reports whether the client has not sent a complete request.
func (c *client) silent() bool { return c.since.IsZero() || c.receiving.Load() }

// young reports whether the client has to have the time to send its request, or to receive the last answer.
func (c *client) young() bool {
	least := youth
	if c.served {
		least = receiveTime
	}
	return c.network && time.Since(c.waits) < least
}

// unread reports whether the kernel holds something that the client has sent: that the server has not come to read it yet is
// not the client's fault.
func (c *client) unread() bool {
	conn, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	waiting := 0
	err = raw.Control(func(fd uintptr) { waiting, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // 0 if it is not known
	return err == nil && waiting > 0
}

// listener makes clients of connections.
type listener struct {
	net.Listener
	all *conns
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.all.newClient(conn), nil
}

// changed is called when the state of a connection changes.
func (c *conns) changed(conn net.Conn, state http.ConnState) {
	one := conn.(*client) // the listener makes no others
	switch state {
	case http.StateNew:
		c.add(one)
	case http.StateIdle:
		c.answered(one)
		c.free()
	case http.StateActive, http.StateClosed, http.StateHijacked: // it is removed when it has been closed
	}
}

// free tells who waits in add or close to look again.
func (c *conns) free() {
	select {
	case c.freed <- struct{}{}:
	default: // there is a value already
	}
}

// add adds a connection, or closes it if there is no room for it. Connections are accepted one by one: while
// one waits here, the others wait in the queue of the kernel.
func (c *conns) add(next *client) {
	wait := time.Duration(0)
	if next.network {
		wait = maxWait
	}
	for until := time.Now().Add(wait); !c.tryAdd(next); {
		left := time.Until(until)
		if left <= 0 {
			c.refuse(next)
			return
		}
		select {
		case <-c.freed:
		case <-time.After(min(left, youth)): // one that was young may be silent still
		}
	}
}

func (c *conns) refuse(next *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next.giveWay()
}

func (c *conns) tryAdd(next *client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.max {
		out := c.victim(next)
		if out == next {
			return false
		}
		out.giveWay()
	}
	next.waits = time.Now()
	c.open = append(c.open, next)
	return true
}

// crowded reports whether a connection should end after its request, to make room for others.
func (c *conns) crowded(one *client) bool {
	return one.network && c.count() > c.max/2
}

// victim returns the connection that has to go when one more comes: the oldest of those that
// have not sent a complete request for some time, or else do not read their answer, or else whose request was not read yet; or, for root, the oldest of other users; or the oldest of the
// network or, for root, of root whose request takes long; or the new one itself. Others do not take the place of root.
func (c *conns) victim(next *client) *client {
	looks := 0 // at what the kernel holds, which takes time
	for _, may := range []func(*client) bool{
		func(one *client) bool {
			if !one.silent() || looks == maxLooks || one.root && !next.root || one.young() {
				return false
			}
			looks++
			return !one.unread()
		},
		func(one *client) bool { return one.unreceived() && (next.root || !one.root) },
		func(one *client) bool { return one.since.IsZero() && (next.root || !one.root) && !one.young() },
		func(one *client) bool { return next.root && !one.root },
		func(one *client) bool {
			return (one.network || next.root) && !one.since.IsZero() && !one.limits.Stream && time.Since(one.since) > slowAnswer
		},
	} {
		for _, one := range c.open {
			if may(one) {
				return one
			}
		}
	}
	return next
}

func (c *conns) remove(one *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(one)
	c.free()
}

// close waits until a time for clients to receive the end of their answers, and closes all connections. What they have not received is left to the
// kernel, which goes on after the end of the process. None may be added any more.
func (c *conns) close(until time.Time) {
	for left := time.Until(until); left > 0 && c.count() > 0; left = time.Until(until) {
		select {
		case <-c.freed:
		case <-time.After(left):
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.open {
		_ = one.Conn.Close() // nothing is lost that was promised
	}
	c.open = nil
}

func (c *conns) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// drop is remove while mu is held. The connection may be gone already.
func (c *conns) drop(gone *client) {
	for i, one := range c.open {
		if one == gone {
			c.open = append(c.open[:i], c.open[i+1:]...)
			return
		}
	}
}

// begin notes that a request is handed to the handler. It fails if the user has too many.
func (c *conns) begin(one *client, limits Limits, complete bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.known {
		if err := c.tooMany(one, limits); err != nil {
			return err
		}
	}
	one.since, one.limits = time.Now(), limits
	one.receiving.Store(!complete)
	return nil
}

// answered notes that all of the answer to a request has been sent.
func (c *conns) answered(one *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one.since, one.limits, one.served, one.waits = time.Time{}, Limits{}, true, time.Now()
}

func (c *conns) tooMany(next *client, limits Limits) error {
	requests, streams, large := 1, 0, 0
	for _, one := range c.open {
		if one.uid != next.uid || one.since.IsZero() {
			continue
		}
		requests++
		if one.limits.Stream {
			streams++
		}
		if one.limits.MaxBody > maxBody {
			large++
		}
	}
	switch {
	case limits.Stream && streams >= maxStreams:
		return fmt.Errorf("uid %d follows %d answers that go on already, which is the limit: end one of them", next.uid, streams)
	case limits.MaxBody > maxBody && large >= maxLarge:
		return fmt.Errorf("%d large requests of uid %d are in hand already, which is the limit: try again later", large, next.uid)
	case !next.root && requests > maxRequests:
		return fmt.Errorf("%d requests of uid %d are in hand already, which is the limit: try again later", requests-1, next.uid)
	}
	return nil
}

var errFailed = errors.New("the server failed at this request; its log says how")

// connKey is the key of a request's connection in its context.
type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

func connOf(ctx context.Context) *client { return ctx.Value(connKey{}).(*client) }
