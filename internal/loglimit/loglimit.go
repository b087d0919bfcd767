// Package loglimit keeps a recurring event from flooding a log: of the records with the same
// message, a [Handler] passes on the first 50 in a minute, counts the others, and logs one
// line about them when the minute is over.
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
	// Passed is how many of them are passed on. So in any period of a minute at most twice as
	// many are passed on.
	Passed = 50
	// LeftOut is the attribute with the number of records that were left out.
	LeftOut = "leftOut"
)

// Handler is an [slog.Handler] that limits the records it passes on to another handler. It
// is safe for concurrent use. Handlers derived from it by WithAttrs and WithGroup share its
// limits.
//
// The line about records that were left out has the message, level and attributes of the
// last of them, and their number. A record that already has the attribute [LeftOut] was
// limited by another Handler, and is always passed on.
type Handler struct {
	next   slog.Handler
	origin string // the values of the attributes in Options.Apart
	*limiter
}

// Options are the options of a [Handler]. With the zero value, records at level Info and
// above are limited, and all records with the same message are counted together.
type Options struct {
	// Level is the lowest level that is limited.
	Level slog.Level
	// Apart are keys of attributes that are passed to WithAttrs outside of groups. Records
	// with different values of these attributes are counted separately. The number of
	// values must be bounded.
	Apart []string
}

// limiter is the state that a handler shares with those derived from it.
type limiter struct {
	options Options

	mu     sync.Mutex
	causes map[string]*cause // by origin and message
	enough int               // causes at which those that are over are forgotten
	closed bool
}

// cause is the records with one message within a window.
type cause struct {
	name   string // its key in causes
	began  time.Time
	passed int
	left   int
	last   slog.Record  // of those that were left out
	next   slog.Handler // the handler that last was for
	timer  *time.Timer  // ends the window; nil while nothing was left out
}

// New returns a handler that passes records on to next.
func New(next slog.Handler, o Options) *Handler {
	return &Handler{next: next, limiter: &limiter{options: o, causes: map[string]*cause{}}}
}

// Enabled implements [slog.Handler].
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	origin := h.origin
	for _, a := range attrs {
		if slices.Contains(h.options.Apart, a.Key) {
			origin += a.Value.String() + "\x00"
		}
	}
	return &Handler{h.next.WithAttrs(attrs), origin, h.limiter}
}

// WithGroup implements [slog.Handler].
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.origin, h.limiter}
}

// Handle implements [slog.Handler].
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= h.options.Level && !limited(r) && !h.pass(r) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// limited reports whether a record is the line of another handler about records that it left out.
func limited(r slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == LeftOut
		return !found
	})
	return found
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
	slices.SortFunc(ended, func(a, b *cause) int { return cmp.Compare(a.name, b.name) })
	for _, c := range ended {
		c.report()
	}
}

// pass counts a record, and reports whether to pass it on.
func (h *Handler) pass(r slog.Record) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return true
	}
	now, name := time.Now(), h.origin+r.Message
	c := h.causes[name]
	if c == nil || c.left == 0 && now.Sub(c.began) >= Window {
		h.forgetLocked(now)
		c = &cause{name: name, began: now}
		h.causes[name] = c
	}
	if c.passed < Passed {
		c.passed++
		return true
	}
	c.left++
	c.last, c.next = r.Clone(), h.next
	if c.timer == nil {
		c.timer = time.AfterFunc(c.began.Add(Window).Sub(now), func() { h.end(c) })
	}
	return false
}

// forgetLocked deletes the windows that are over and in which nothing was left out, once there are twice as many as there were
// after the last time: so its cost for each does not grow with their number.
func (l *limiter) forgetLocked(now time.Time) {
	if len(l.causes) < l.enough {
		return
	}
	defer func() { l.enough = 2 * len(l.causes) }()
	for message, c := range l.causes {
		if c.left == 0 && now.Sub(c.began) >= Window {
			delete(l.causes, message)
		}
	}
}

// end ends a window in which records were left out.
func (l *limiter) end(c *cause) {
	l.mu.Lock()
	if l.causes[c.name] == c {
		delete(l.causes, c.name)
	}
	l.mu.Unlock()
	c.report()
}

// report logs the line about the records that were left out. Nothing else refers to the cause any more.
func (c *cause) report() {
	r := slog.NewRecord(time.Now(), c.last.Level, c.last.Message, c.last.PC)
	r.AddAttrs(slog.Int(LeftOut, c.left))
	c.last.Attrs(func(a slog.Attr) bool {
		r.AddAttrs(a)
		return true
	})
	_ = c.next.Handle(context.Background(), r) // slog ignores the errors of handlers too
}
