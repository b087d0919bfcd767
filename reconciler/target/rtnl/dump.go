package rtnl

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A dump that is interrupted is repeated at most maxDumps times, and for about dumpTime.
const (
	maxDumps = 10
	dumpTime = 3 * time.Second
)

// errInterrupted is the error when something changed during each try of a dump.
var errInterrupted = errors.New("every dump was interrupted by changes")

// Dump requests all objects of a kind and returns the results of decode for the messages.
// Messages for which decode returns false are skipped. A dump that is interrupted by a change
// is repeated. The data of a message is valid until decode returns.
func Dump[T any](ctx context.Context, c *Conn, request Request, decode func(syscall.NetlinkMessage) (T, bool)) (items []T, err error) {
	items, _, err = DumpInParts(ctx, c, request, decode)
	return items, err
}

// DumpInParts is like [Dump], and returns the number of parts in which the kernel listed the objects. Changes between the
// parts may make it skip some or repeat others.
func DumpInParts[T any](ctx context.Context, c *Conn, request Request, decode func(syscall.NetlinkMessage) (T, bool)) (items []T, parts int, err error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	for began, n := time.Now(), 0; n < maxDumps && (n == 0 || time.Since(began) < dumpTime); n++ {
		items = items[:0]
		err = c.ask(ctx, request, unix.NLM_F_DUMP, func(m syscall.NetlinkMessage) {
			if item, ok := decode(m); ok {
				items = append(items, item)
			}
		})
		if !errors.Is(err, errInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, 0, err
	}
	return items, c.parts, nil
}

// Get requests one object and calls use with the answer, whose data is valid until use
// returns.
func (c *Conn) Get(ctx context.Context, request Request, use func(syscall.NetlinkMessage)) error {
	c.asking.Lock()
	defer c.asking.Unlock()
	return c.ask(ctx, request, 0, use)
}

// ask sends a request and calls each with the messages of the answer. It reads all
// of them even if ctx ends meanwhile: the kernel would refuse the next dump.
func (c *Conn) ask(ctx context.Context, request Request, flags uint16, each func(syscall.NetlinkMessage)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.asked++
	if err := c.questions.send(request.appendTo(nil, c.asked, flags)); err != nil {
		return fmt.Errorf("send to the kernel: %w", err)
	}
	interrupted := false
	for c.parts = 0; ; {
		b, err := c.questions.receive()
		if err != nil {
			return fmt.Errorf("receive from the kernel: %w", err)
		}
		counted := false
		for m := range messages(b) {
			if m.Header.Seq != c.asked {
				continue // answers another request, whose answer could not be read
			}
			interrupted = interrupted || m.Header.Flags&unix.NLM_F_DUMP_INTR != 0
			switch {
			case m.Header.Type == unix.NLMSG_ERROR, m.Header.Type == unix.NLMSG_DONE:
				err := outcomeOf(m)
				if err == nil && interrupted {
					err = errInterrupted
				}
				return err
			case m.Header.Flags&unix.NLM_F_MULTI == 0:
				each(m)
				return nil
			default:
				if !counted {
					c.parts, counted = c.parts+1, true
				}
				each(m)
			}
		}
	}
}
