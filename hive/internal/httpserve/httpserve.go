// Package httpserve serves HTTP for as long as a context lives, with limits against clients that are slow or send too much.
package httpserve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"
)

const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = time.Minute
	maxHeader     = 16 << 10
	maxBody       = 1 << 20
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
// have 2 s to end. A handler that panics is logged and answered by failed. There are at most a hundred connections: one more
// takes the place of the oldest that has no request in hand, if there is one. Root takes the place of any other user (see
// Privileged). It returns nil if ctx ended it.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, failed Failed, logger *slog.Logger) error {
	all := &conns{}
	server := &http.Server{
		Handler:           &guard{next: handler, failed: failed, logger: logger, conns: all},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		ConnState:      all.changed,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnContext:    withConn,
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

// guard bounds what is read, notes who is being answered, and survives panics.
type guard struct {
	next   http.Handler
	failed Failed
	logger *slog.Logger
	conns  *conns
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer g.conns.busy(connOf(r.Context()))()
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
