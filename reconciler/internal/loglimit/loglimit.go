// Package loglimit keeps one cause from filling a log: of the records of level Warn
// and above with the same message a [Handler] passes on the first 50 in a minute,
// counts the others, and writes one line about those when the minute is over.
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
	// Passed is how many of them are passed on. So no minute, wherever it begins, has
	// more than twice as many lines.
	Passed = 50
	// LeftOut is the attribute that has the number of records which were not.
	LeftOut = "leftOut"
)

// Handler is an [slog.Handler] that limits what another one gets. It is safe for
// concurrent use. What is derived from it by WithAttrs and WithGroup has its limits.
//
// Records below level Warn pass freely. The line about what was left out has the
// message, the level and the attributes of the last of them, and how many they were.
type Handler struct {
	next slog.Handler
	*limiter
}

// limiter is what a handler has in common with those that are derived from it.
type limiter struct {
	mu     sync.Mutex
	causes map[string]*cause // by message
	closed bool
}

// cause is what was logged with one message within a window.
type cause struct {
	began  time.Time
	passed int
	left   int
	last   slog.Record  // of those that were left out
	next   slog.Handler // which that was for
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

// Close writes what there is to say of records that were left out. It does not close
// the other handler; what is logged afterwards is passed on without a limit.
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

// forgetLocked forgets the windows that are over and left nothing out.
func (l *limiter) forgetLocked(now time.Time) {
	for message, c := range l.causes {
		if c.left == 0 && now.Sub(c.began) >= Window {
			delete(l.causes, message)
		}
	}
}

// end ends a window that has left something out.
func (l *limiter) end(c *cause) {
	l.mu.Lock()
	if l.causes[c.last.Message] == c {
		delete(l.causes, c.last.Message)
	}
	l.mu.Unlock()
	c.report()
}

// report writes the line about what was left out. Nobody else has the cause any more.
func (c *cause) report() {
	r := slog.NewRecord(time.Now(), c.last.Level, c.last.Message, c.last.PC)
	r.AddAttrs(slog.Int(LeftOut, c.left))
	c.last.Attrs(func(a slog.Attr) bool {
		r.AddAttrs(a)
		return true
	})
	_ = c.next.Handle(context.Background(), r) // whoever logs hears of no error either
}
