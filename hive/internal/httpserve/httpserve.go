// Package httpserve serves HTTP for as long as a context lives, with limits against clients that are slow or send too much.
package httpserve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"
)

const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = time.Minute
	maxHeader     = 16 << 10
	maxBody       = 1 << 20
	// maxConns keeps clients from using up the process's file descriptors.
	maxConns = 100
	// drainTimeout is how long requests may take to end once the context is done.
	drainTimeout = 2 * time.Second
)

// Failed answers a request whose handler has panicked before it wrote anything.
type Failed func(w http.ResponseWriter)

// BodyLimiter is a handler some of whose requests may have larger bodies than 1 MiB.
type BodyLimiter interface {
	http.Handler
	// MaxBody returns how many bytes a request may have; 1 MiB if that is not positive.
	MaxBody(r *http.Request) int64
}

// Serve answers requests on l until ctx is done, and closes l. Requests in hand learn of that by their own context, and
// have 2 s to end. A handler that panics
// is logged and answered by failed. Connections beyond a hundred are closed at once. It returns nil if ctx ended it.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, failed Failed, logger *slog.Logger) error {
	server := &http.Server{
		Handler:           &guard{next: handler, failed: failed, logger: logger},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		ConnState:      limitConns(),
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	result := make(chan error, 1)
	go func() { result <- server.Serve(l) }()
	select {
	case err := <-result:
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := server.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		logger.Warn("Requests did not end in time and are cut off", "after", drainTimeout)
		err = server.Close()
	}
	if ended := <-result; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// limitConns closes new connections when there are too many.
func limitConns() func(net.Conn, http.ConnState) {
	var open atomic.Int32
	return func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if open.Add(1) > maxConns {
				_ = c.Close() // nothing was exchanged; StateClosed follows
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
}

// Close closes a listener that Serve may have closed already, or that was never opened.
func Close(l net.Listener) error {
	if l == nil {
		return nil
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// guard bounds what is read and survives panics.
type guard struct {
	next   http.Handler
	failed Failed
	logger *slog.Logger
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w}
	limit := int64(0)
	if l, ok := g.next.(BodyLimiter); ok {
		limit = l.MaxBody(r)
	}
	if limit <= 0 {
		limit = maxBody
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		g.logger.Error("A handler panicked", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
		if rec.wrote {
			panic(http.ErrAbortHandler) // the client must not take what it has for the whole
		}
		g.failed(rec)
	}()
	g.next.ServeHTTP(rec, r)
}

// recorder knows whether the answer has begun.
type recorder struct {
	http.ResponseWriter
	wrote bool
}

func (r *recorder) WriteHeader(status int) {
	r.wrote = true
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.wrote = true
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
