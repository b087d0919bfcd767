package file

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long the file system of the directory may take to respond.
const patience = 10 * time.Second

var errSilent = errors.New("its file system does not answer, perhaps because its server is away")

// responder finds out whether the file system of a directory responds. A network file system, or
// one served by a process, may not respond, and a call that uses it blocks until it does. It
// belongs to one goroutine.
type responder struct {
	ask     func() // returns when the file system has responded
	pending chan struct{}
}

func newResponder(dir string) *responder {
	return &responder{ask: func() {
		var stat unix.Statfs_t
		_ = unix.Statfs(dir, &stat) // an error is a response, too; statfs is not served from a cache
	}}
}

// responds reports whether the file system responds in time and, if it does, has called then in
// another goroutine. Until a call that took too long has returned, it makes no other, and does not
// wait.
func (r *responder) responds(ctx context.Context, then func()) bool {
	if r.pending != nil {
		select {
		case <-r.pending:
		default:
			return false
		}
	}
	done := make(chan struct{})
	r.pending = done
	go func() {
		defer close(done)
		r.ask()
		then()
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		r.pending = nil
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
