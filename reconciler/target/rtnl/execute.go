package rtnl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// batchRequests is the number of requests in one system call. More would not make the answers
// cheaper, but others would wait longer for the kernel's lock.
const batchRequests = 64

// errNoAnswer is the error of a request that the kernel may or may not have executed.
var errNoAnswer = errors.New("the kernel's answer was lost")

// Execute sends requests in order, many in one system call, and returns the
// outcome of each: nil, or an [*Error] with the kernel's own text. After ctx has ended, the
// remaining requests are not sent and have the error of ctx.
func (c *Conn) Execute(ctx context.Context, requests []Request) []error {
	outcomes := make([]error, len(requests))
	c.mu.Lock()
	defer c.mu.Unlock()
	for first := 0; first < len(requests); first += batchRequests {
		last := min(first+batchRequests, len(requests))
		if err := ctx.Err(); err != nil {
			fill(outcomes[first:], err)
			return outcomes
		}
		c.execute(requests[first:last], outcomes[first:last])
	}
	return outcomes
}

func fill(outcomes []error, err error) {
	for i := range outcomes {
		outcomes[i] = err
	}
}

// execute sends requests in one system call. Their sequence numbers are consecutive, so that
// each answer can be matched to its request.
func (c *Conn) execute(requests []Request, outcomes []error) {
	first := c.seq + 1
	c.out = c.out[:0]
	for i := range requests {
		c.seq++
		c.out = requests[i].appendTo(c.out, c.seq, unix.NLM_F_ACK)
	}
	fill(outcomes, errNoAnswer)
	if err := c.requests.send(c.out); err != nil {
		fill(outcomes, fmt.Errorf("send to the kernel: %w", err))
		return
	}
	for answered := 0; answered < len(requests); {
		b, err := c.requests.receiveNow() // the kernel has answered before send returned
		if err != nil {
			return // requests without an answer have their error already
		}
		for m := range messages(b) {
			if i := m.Header.Seq - first; m.Header.Type == unix.NLMSG_ERROR && i < uint32(len(requests)) {
				outcomes[i] = outcomeOf(m)
				answered++
			}
		}
	}
}

// outcomeOf returns the outcome that an answer reports.
func outcomeOf(m syscall.NetlinkMessage) error {
	errno := syscall.Errno(-int32(Uint32(m.Data)))
	if errno == 0 {
		return nil
	}
	e := &Error{Errno: errno}
	const echoed = 4 + unix.SizeofNlMsghdr // the number and the header of the request
	if m.Header.Flags&unix.NLM_F_ACK_TLVS != 0 && len(m.Data) > echoed {
		for kind, value := range Attributes(m.Data[echoed:]) {
			if kind == unix.NLMSGERR_ATTR_MSG {
				e.Text = strings.TrimRight(String(value), ". \n")
			}
		}
	}
	return e
}
