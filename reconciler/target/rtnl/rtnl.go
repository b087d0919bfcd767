// Package rtnl lets targets speak rtnetlink: many requests in few
// system calls, each with a result and the kernel's own error text; complete
// dumps; notifications that can be read as fast as the kernel sends them. With
// [DialNetfilter] it speaks to nf_tables in the same way, and in transactions.
//
// It works on the network namespace of the thread that calls [Dial] or
// [Subscribe], which must be that of the whole process.
package rtnl

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Conn is a connection to the kernel. It is safe for concurrent use; requests
// take turns.
type Conn struct {
	mu       sync.Mutex // guards what follows
	requests transport
	seq      uint32
	out      []byte

	asking    sync.Mutex // guards what follows
	questions transport
	asked     uint32 // the last sequence number
	parts     int    // number of datagrams with objects in the last answer
}

// transport is a [socket].
type transport interface {
	send(b []byte) error
	receive() ([]byte, error)
	receiveNow() ([]byte, error)
	enlarge(size int) error
	port() (uint32, error)
	close()
}

// Dial connects.
func Dial() (*Conn, error) { return dialProtocol(unix.NETLINK_ROUTE) }

func dialProtocol(protocol int) (*Conn, error) {
	requests, err := openSocket(protocol)
	if err != nil {
		return nil, err
	}
	questions, err := openSocket(protocol)
	if err != nil {
		requests.close()
		return nil, err
	}
	return &Conn{requests: requests, questions: questions}, nil
}

// Requested returns how many requests were made by Execute.
func (c *Conn) Requested() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.seq)
}

// Asked returns how many questions were asked: dumps, repeated ones included, and
// questions about a single object.
func (c *Conn) Asked() int {
	c.asking.Lock()
	defer c.asking.Unlock()
	return int(c.asked)
}

// Close closes the connection; nothing may be called after it.
func (c *Conn) Close() {
	c.requests.close()
	c.questions.close()
}
