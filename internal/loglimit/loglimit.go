// Package loglimit keeps a recurring problem from flooding a log: of the records at level
// Warn and above with the same message, a [Handler] passes on the first 50 in a minute,
// counts the others, and logs one line about them when the minute is over.
package loglimit

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// Window is how long records with the same message are counted together,
	// beginning with the first of them.
	Window = time.Minute
	// Passed is how many of them are passed on. So no period of a minute, wherever it
	// begins, has more than twice as many.
	Passed = 50
	// LeftOut is the attribute with the number of records that were left out.
	LeftOut = "leftOut"
)

// Handler is an [slog.Handler] that limits the records it passes on to another handler. It
// is safe for concurrent use. Handlers derived from it by WithAttrs and WithGroup share its
// limits.
//
// Records below level Warn are always passed on. The line about records that were left out
// has the message, level and attributes of the last of them, and their number.
type Handler struct {
	next slog.Handler
	*limiter
}

// limiter is the state that a handler shares with those derived from it.
type limiter struct {
	mu     sync.Mutex
	causes map[string]*cause // by message
	closed bool
}

// cause is the records with one message within a window.
type cause struct {
	began  time.Time
	passed int
	left   int
	last   slog.Record  // of those that were left out
	next   slog.Handler // the handler that last was for
	timer  *time.Timer  // ends the window; nil while nothing was left out
}

// New returns a handler that passes records on to next.
func New(next slog.Handler) *Handler {
	return &Handler{next, &limiter{causes: map[string]*cause{}}}
}

// Enabled implements [slog.Handler].
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs), h.limiter}
}

// WithGroup implements [slog.Handler].
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.limiter}
}

// Handle implements [slog.Handler].
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && !h.pass(h.next, r) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// Close logs the pending lines about records that were left out. It does not close the
// other handler; records logged afterwards are passed on without a limit.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	var ended []*cause
	for _, c := range h.causes {
		if c.left > 0 && c.timer.Stop() {
			ended = append(ended, c)
		}
	}
	clear(h.causes)
	h.mu.Unlock()
	slices.SortFunc(ended, func(a, b *cause) int { return cmp.Compare(a.last.Message, b.last.Message) })
	for _, c := range ended {
		c.report()
	}
}

// pass reports whether a record is to be passed on to next, and counts it.
func (l *limiter) pass(next slog.Handler, r slog.Record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true
	}
	now := time.Now()
	c := l.causes[r.Message]
	if c == nil || c.left == 0 && now.Sub(c.began) >= Window {
		l.forgetLocked(now)
		c = &cause{began: now}
		l.causes[r.Message] = c
	}
	if c.passed < Passed {
		c.passed++
		return true
	}
	c.left++
	c.last, c.next = r.Clone(), next
	if c.timer == nil {
		c.timer = time.AfterFunc(c.began.Add(Window).Sub(now), func() { l.end(c) })
	}
	return false
}

// forgetLocked deletes the windows that are over and in which nothing was left out.
func (l *limiter) forgetLocked(now time.Time) {
	for message, c := range l.causes {
		if c.left == 0 && now.Sub(c.began) >= Window {
			delete(l.causes, message)
		}
	}
}

// end ends a window in which records were left out.
func (l *limiter) end(c *cause) {
	l.mu.Lock()
	if l.causes[c.last.Message] == c {
		delete(l.causes, c.last.Message)
	}
	l.mu.Unlock()
	c.report()
}

// report logs the line about what was left out. Nothing else refers to the cause any more.
func (c *cause) report() {
	r := slog.NewRecord(time.Now(), c.last.Level, c.last.Message, c.last.PC)
	r.AddAttrs(slog.Int(LeftOut, c.left))
	c.last.Attrs(func(a slog.Attr) bool {
		r.AddAttrs(a)
		return true
	})
	_ = c.next.Handle(context.Background(), r) // slog ignores the errors of handlers too
}
