package httpserve

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxConns keeps clients from using up the process's file descriptors.
	maxConns = 100
	// slowAnswer is how long a request of a network may take while there are too many.
	slowAnswer = 5 * time.Second
)

// Privileged is a connection that may be one of root's, for whom there is always room.
type Privileged interface {
	Root() bool
}

// conns are the open connections. When there are too many, a new one takes the place of
// one whose client is slow or silent, so that no number of those keeps others out.
type conns struct {
	mu   sync.Mutex
	open []*client // in the order in which they came
}

// client is an open connection.
type client struct {
	net.Conn
	root    bool
	network bool      // anyone may be at the other end
	since   time.Time // when a request was handed to the handler; zero: none is
}

// changed is called when the state of a connection changes.
func (c *conns) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.add(conn)
	case http.StateClosed, http.StateHijacked:
		c.remove(conn)
	case http.StateActive, http.StateIdle:
	}
}

func (c *conns) add(conn net.Conn) {
	privileged, known := conn.(Privileged)
	_, network := conn.LocalAddr().(*net.TCPAddr)
	next := &client{Conn: conn, root: known && privileged.Root(), network: network}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= maxConns {
		out := c.victim(next)
		_ = out.Close() // nothing is lost that was promised
		if out == next {
			return
		}
		c.drop(out.Conn)
	}
	c.open = append(c.open, next)
}

// victim returns the connection that has to go when one more comes: the oldest of those that
// have no request in hand; or, for root, the oldest of other users; or the oldest of the network
// whose request takes long; or the new one itself. Others do not take the place of root.
func (c *conns) victim(next *client) *client {
	for _, may := range []func(*client) bool{
		func(one *client) bool { return one.since.IsZero() && (next.root || !one.root) },
		func(one *client) bool { return next.root && !one.root },
		func(one *client) bool { return one.network && time.Since(one.since) > slowAnswer },
	} {
		for _, one := range c.open {
			if may(one) {
				return one
			}
		}
	}
	return next
}

func (c *conns) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(conn)
}

// drop is remove while mu is held. The connection may be gone already.
func (c *conns) drop(conn net.Conn) {
	for i, one := range c.open {
		if one.Conn == conn {
			c.open = append(c.open[:i], c.open[i+1:]...)
			return
		}
	}
}

// busy notes that a request of a connection is handed to the handler, until done is called.
func (c *conns) busy(conn net.Conn) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.open {
		if one.Conn == conn {
			one.since = time.Now()
			return func() { c.mu.Lock(); one.since = time.Time{}; c.mu.Unlock() }
		}
	}
	return func() {}
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

func connOf(ctx context.Context) net.Conn {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	return conn
}
