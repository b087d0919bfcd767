package rtnl

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// DialNetfilter connects to nf_tables. Changes are made with [Conn.Transact].
func DialNetfilter() (*Conn, error) { return dialProtocol(unix.NETLINK_NETFILTER) }

// SubscribeNetfilter subscribes to groups of netfilter, as unix.NFNLGRP_NFTABLES, in
// the network namespace of the process.
func SubscribeNetfilter(groups ...uint) (*Subscription, error) {
	return subscribe(unix.NETLINK_NETFILTER, groups)
}

// sizeofNfgenmsg is the fixed part of a message of netfilter: a family, a version,
// and two bytes with the subsystem of a batch.
const sizeofNfgenmsg = 4

// TablesRequest begins a request of nf_tables, as unix.NFT_MSG_NEWTABLE, about an
// address family, as unix.NFPROTO_INET.
func TablesRequest(message, flags uint16, family byte) Request {
	r := Request{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | message, Flags: flags, Data: make([]byte, sizeofNfgenmsg, 96)}
	r.Data[0] = family
	return r
}

// TablesMessage returns what a message of nf_tables is about, as unix.NFT_MSG_NEWTABLE,
// its address family and its attributes; false if the message is not of nf_tables.
func TablesMessage(m syscall.NetlinkMessage) (message uint16, family byte, attributes []byte, ok bool) {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < sizeofNfgenmsg {
		return 0, 0, nil, false
	}
	return m.Header.Type & 0xff, m.Data[0], m.Data[sizeofNfgenmsg:], true
}

// Attributes returns the attributes of a request of nf_tables.
func (r *Request) Attributes() []byte { return r.Data[sizeofNfgenmsg:] }

// Size is how many bytes a request takes in a batch.
func (r *Request) Size() int { return align(unix.SizeofNlMsghdr + len(r.Data)) }

// TransactionError says which requests of a transaction the kernel refused. None of the
// requests was executed.
type TransactionError struct {
	// Refused has the errors of requests, by their place. The kernel checks all
	// requests. Refused is empty if Err says why the transaction as a whole was refused.
	Refused map[int]error
	Err     error
}

// Error implements error.
func (e *TransactionError) Error() string {
	for at := range e.Refused {
		return fmt.Sprintf("%d requests of the transaction were refused, such as number %d: %v", len(e.Refused), at, e.Refused[at])
	}
	return e.Err.Error()
}

// Unwrap returns all errors.
func (e *TransactionError) Unwrap() []error {
	var errs []error
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	for _, err := range e.Refused {
		errs = append(errs, err)
	}
	return errs
}

// sendBufferMargin is how much must be free in the send buffer in addition to a message.
const sendBufferMargin = 32

// maxTransaction is how many bytes of requests a transaction may have at most. Where only
// the limit net.core.wmem_max is in the way, the send buffer is enlarged up to this.
const maxTransaction = 256 << 20

// Transact makes requests of nf_tables in one transaction: all of them, or none. The
// error is a [*TransactionError]. A transaction that is larger than the kernel
// lets the process send matches syscall.EMSGSIZE. It is not made if ctx has ended.
func (c *Conn) Transact(ctx context.Context, requests []Request) error {
	if len(requests) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return &TransactionError{Err: err}
	}
	first := c.seq + 1
	out := batchBoundary(c.out[:0], unix.NFNL_MSG_BATCH_BEGIN, first)
	last := first
	for i := range requests {
		last++
		flags := uint16(0)
		if i == len(requests)-1 { // errors are reported in any case
			flags = unix.NLM_F_ACK
		}
		out = requests[i].appendTo(out, last, flags)
	}
	out = batchBoundary(out, unix.NFNL_MSG_BATCH_END, last+1)
	c.seq = last + 1
	if c.out = out; cap(out) > keptBuffer {
		c.out = nil
	}
	if err := c.requests.enlarge(len(out) + sendBufferMargin); err != nil {
		return &TransactionError{Err: err}
	}
	if err := c.requests.send(out); err != nil {
		return &TransactionError{Err: fmt.Errorf("send to the kernel: %w", err)}
	}
	return c.outcome(first, last)
}

// keptBuffer is the size of a buffer for requests that is kept for the next ones.
const keptBuffer = 1 << 20

func batchBoundary(b []byte, message uint16, seq uint32) []byte {
	r := Request{Type: message, Data: []byte{0, 0, 0, unix.NFNL_SUBSYS_NFTABLES}}
	return r.appendTo(b, seq, 0)
}

// outcome reads the answers to a transaction, which are there: errors of requests,
// the answer to the last of them, and errors of the whole with the number of the first
// message.
func (c *Conn) outcome(first, last uint32) error {
	failure := &TransactionError{Refused: map[int]error{}}
	answered, lost := false, false
	for {
		b, err := c.requests.receiveNow()
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			failure.Err = errors.Join(failure.Err, fmt.Errorf("receive from the kernel: %w", err))
			if lost || !errors.Is(err, unix.ENOBUFS) {
				return failure
			}
			lost = true // some of the answers: the others are still there
			continue
		}
		for m := range messages(b) {
			at := m.Header.Seq - first
			if m.Header.Type != unix.NLMSG_ERROR || at > last-first+1 {
				continue // an answer to something earlier
			}
			answered = answered || m.Header.Seq == last
			switch err := outcomeOf(m); {
			case err == nil:
			case at == 0 || m.Header.Seq > last:
				failure.Err = errors.Join(failure.Err, err)
			default:
				failure.Refused[int(at)-1] = err
			}
		}
	}
	if len(failure.Refused) > 0 {
		failure.Err = nil // of an answer that was lost, too
		return failure
	}
	if failure.Err == nil && !answered {
		failure.Err = errNoAnswer
	}
	if failure.Err != nil {
		return failure
	}
	return nil
}

// Port returns the number of the socket that makes requests. Notifications
// of what they have changed carry it.
func (c *Conn) Port() (uint32, error) { return c.requests.port() }

// enlarge makes the send buffer large enough for a message of size bytes.
func (s *socket) enlarge(size int) (err error) {
	if size > maxTransaction {
		return fmt.Errorf("a transaction of %d bytes is larger than %d: %w", size, maxTransaction, unix.EMSGSIZE)
	}
	if size <= s.sendBuffer {
		return nil
	}
	control := func(fd uintptr) {
		// The kernel doubles what is asked for, for its own needs; but a message may
		// have all of it.
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, size) != nil {
			// Only root of the machine may exceed the limit.
			if err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, size); err != nil {
				return
			}
		}
		s.sendBuffer, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
	}
	if closed := s.raw.Control(control); closed != nil {
		return closed
	}
	if err == nil && s.sendBuffer < size {
		err = fmt.Errorf("a transaction of %d bytes is larger than the kernel lets this process send, which is %d: raise the sysctl net.core.wmem_max to %d on the host: %w",
			size, s.sendBuffer, (size+1)/2, unix.EMSGSIZE)
	}
	return err
}

func (s *socket) port() (port uint32, err error) {
	control := func(fd uintptr) {
		var name unix.Sockaddr
		if name, err = unix.Getsockname(int(fd)); err != nil {
			return
		}
		if own, ok := name.(*unix.SockaddrNetlink); ok {
			port = own.Pid
		}
	}
	if closed := s.raw.Control(control); closed != nil {
		return 0, closed
	}
	return port, err
}

// DumpPart is [Dump] for a part of the objects, such as the rules of one table: it ignores
// that the kernel reports a change elsewhere as an interruption.
// To find out whether that part has changed meanwhile, listen to
// notifications.
func DumpPart[T any](ctx context.Context, c *Conn, request Request, decode func(syscall.NetlinkMessage) (T, bool)) (items []T, err error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	err = c.ask(ctx, request, unix.NLM_F_DUMP, func(m syscall.NetlinkMessage) {
		if item, ok := decode(m); ok {
			items = append(items, item)
		}
	})
	if err != nil && !errors.Is(err, errInterrupted) {
		return nil, err
	}
	return items, nil
}
