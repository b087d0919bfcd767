// Package httpserve serves HTTP for as long as a context lives, with limits against clients that are slow or send too much.
package httpserve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
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

// Fail answers a request with an error.
type Fail func(w http.ResponseWriter, status int, err error)

// Limits are those of a request.
type Limits struct {
	// MaxBody is how many bytes it may have; 1 MiB if that is not positive.
	MaxBody int64
	// Stream: the answer goes on for as long as the client wants.
	Stream bool
}

// Limiter is a handler whose requests differ in their limits. It may be asked by several goroutines at once.
type Limiter interface {
	http.Handler
	Limits(r *http.Request) Limits
}

// Serve answers requests on l until ctx is done, and closes l. Requests in hand learn of that by their own context, and
// have 2 s to end. A handler that panics is logged and answered by fail.
//
// There are at most 500 connections, and no more than a quarter of the descriptors that the process may have. One more takes the place of the
// oldest that waits for its client: for a complete request, or until the answer is read. A TCP connection counts until its client has received the
// end of the answer. If the connections are of a Peer, the limits of a user are 40 requests, but not for root, 16 streams and 2 requests with
// bodies larger than 1 MiB, at once; more are answered by fail with status 429. Root takes the place of any other user. A request of a network that
// has a body gets status 413 and its connection is closed. A connection of a network that finds all others being answered waits for up to a second,
// and while there are more than half as many, each ends after one request. Serve returns nil if ctx ended it.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, fail Fail, logger *slog.Logger) error {
	all := newConns()
	server := &http.Server{
		DisableGeneralOptionsHandler: true, // it would answer OPTIONS * before the guard
		Handler:                      &guard{next: handler, fail: fail, logger: logger, conns: all},
		ReadHeaderTimeout:            headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		ConnState:      all.changed,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnContext:    withConn,
	}
	result := make(chan error, 1)
	go func() { result <- server.Serve(listener{l, all}) }()
	select {
	case err := <-result:
		err = errors.Join(err, server.Close())
		all.close(time.Now())
		return err
	case <-ctx.Done():
	}
	until := time.Now().Add(drainTimeout)
	drain, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	err := server.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		logger.Warn("Requests did not end in time and are cut off", "after", drainTimeout)
		err = server.Close()
	}
	if ended := <-result; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	all.close(until)
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

// guard bounds what is read and how much is done at once, and survives panics.
type guard struct {
	next   http.Handler
	fail   Fail
	logger *slog.Logger
	conns  *conns
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var limits Limits
	if l, ok := g.next.(Limiter); ok {
		limits = l.Limits(r)
	}
	if limits.MaxBody <= 0 {
		limits.MaxBody = maxBody
	}
	from := connOf(r.Context())
	if from.network && r.Body != http.NoBody {
		refuseBody(w)
		return
	}
	if err := g.conns.begin(from, limits, r.Body == http.NoBody); err != nil {
		w.Header().Set("Connection", "close")
		g.fail(w, http.StatusTooManyRequests, err)
		return
	}
	if g.conns.crowded(from) {
		w.Header().Set("Connection", "close")
	}
	rec := &recorder{ResponseWriter: w}
	r.Body = &body{http.MaxBytesReader(w, r.Body, limits.MaxBody), from}
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
		g.fail(rec, http.StatusInternalServerError, errFailed)
	}()
	g.next.ServeHTTP(rec, r)
	// A client that has sent many requests at once does not keep others from being accepted and answered.
	runtime.Gosched()
}

// refuseBody answers a request of a network, none of which needs a body, and closes the connection. Left to itself, the server would read
// part of the body first, which is expensive if it comes in small chunks, and keep the connection open for a while.
func refuseBody(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // the answer is short, and fits into the buffers of the connection
	_, _ = io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	_ = conn.Close()
}

// body notes when a request is complete.
type body struct {
	io.ReadCloser
	from *client
}

func (b *body) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err != nil {
		b.from.receiving.Store(false)
	}
	return n, err
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
