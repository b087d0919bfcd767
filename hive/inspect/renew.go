package inspect

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/statehive/statehive/hive/health"
)

// socketCheck is the interval between checks that clients can reach the socket.
const socketCheck = time.Second

// renewed is a listener whose socket is made again when it is gone. Connections that it has accepted are not affected.
type renewed struct {
	mu      sync.Mutex
	current *socket
	closed  bool
}

func (r *renewed) now() *socket {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Accept returns the next connection to the current socket.
func (r *renewed) Accept() (net.Conn, error) {
	for {
		l := r.now()
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) && r.now() != l {
			continue
		}
		return conn, err
	}
}

func (r *renewed) Addr() net.Addr { return r.now().Addr() }

func (r *renewed) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.current.Close()
}

// renew makes the socket again if its path does not lead to it. It replaces neither the socket of another agent nor a file that is
// no socket.
func (r *renewed) renew() (again bool, err error) {
	old := r.now()
	if old.inPlace() {
		return false, nil
	}
	next, err := listen(old.path)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false, next.Close()
	}
	r.current = next
	return true, old.Close()
}

// keep keeps the socket reachable until ctx is done.
func (r *renewed) keep(ctx context.Context, h health.Health, logger *slog.Logger) error {
	tick := time.NewTicker(socketCheck)
	defer tick.Stop()
	reported := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		again, err := r.renew()
		switch {
		case ctx.Err() != nil:
		case err != nil && err.Error() != reported:
			reported = err.Error()
			logger.Error("The API socket is gone and cannot be made again: clients cannot connect", "error", err)
			h.Degraded("the API socket is gone", err)
		case again:
			reported = ""
			logger.Warn("The API socket was gone and has been made again", "socket", r.Addr())
			h.OK("serving at " + r.Addr().String())
		case err == nil && reported != "":
			reported = ""
			h.OK("serving at " + r.Addr().String()) // it is back where it was
		}
	}
}
