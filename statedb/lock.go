package statedb

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// longHold is how long a table may be locked, while others wait for it, before
// that is reported.
const longHold = time.Second

// tableLock serializes the writers of a table. It is a channel so that waiting
// for it can be given up.
type tableLock struct {
	db     *DB
	name   string // of the table
	slot   int    // of the table in a root; another table's once this one was dropped
	order  uint64 // locks are taken in this order; unique
	held   chan struct{}
	holder atomic.Pointer[hold] // for those who wait; nil while the lock changes hands
	// dropped is the commit that dropped the table, or 0. It is set under the lock.
	dropped atomic.Uint64

	waits, holds histogram
}

func newTableLock(db *DB) tableLock { return tableLock{db: db, held: make(chan struct{}, 1)} }

// hold is one lock in the hands of a transaction.
type hold struct {
	of    TableMeta
	by    *claim
	since time.Duration // see now; set with the lock
}

func (h *hold) order() uint64 { return h.of.lockable().order }

// claim is what those who wait for a transaction can learn of it.
type claim struct {
	holds    []hold // in the order in which the locks are taken
	began    place
	waitsFor atomic.Pointer[tableLock] // or nil
	reported atomic.Bool
}

// find returns the place of a lock among the holds.
func (c *claim) find(l *tableLock) (i int, ok bool) {
	const few = 8
	if len(c.holds) > few {
		return slices.BinarySearchFunc(c.holds, l, func(h hold, l *tableLock) int { return cmp.Compare(h.order(), l.order) })
	}
	for i := range c.holds {
		if c.holds[i].of.lockable() == l {
			return i, true
		}
	}
	return 0, false
}

// now is a time that costs half of what the time of day does.
func (l *tableLock) now() time.Duration { return time.Since(l.db.opened) }

// acquire takes the lock for a transaction. The error is that of ctx, or
// ErrDropped.
func (l *tableLock) acquire(ctx context.Context, h *hold) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("to write: %w", err)
	}
	select {
	case l.held <- struct{}{}:
		l.waits.observe(0)
	default:
		if err := l.wait(ctx, h.by); err != nil {
			return err
		}
	}
	h.since = l.now()
	l.holder.Store(h)
	if l.dropped.Load() != 0 {
		l.release()
		return ErrDropped
	}
	return nil
}

func (l *tableLock) wait(ctx context.Context, by *claim) error {
	by.waitsFor.Store(l)
	defer by.waitsFor.Store(nil)
	began := time.Now()
	defer func() { l.waits.observe(time.Since(began)) }()
	timer := time.NewTimer(l.reportLongHold(ctx))
	defer timer.Stop()
	for {
		select {
		case l.held <- struct{}{}:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("waiting to write: %w", ctx.Err())
		case <-timer.C:
			timer.Reset(l.reportLongHold(ctx))
		}
	}
}

func (l *tableLock) release() {
	l.holds.observe(l.now() - l.holder.Swap(nil).since)
	<-l.held
}

// reportLongHold reports who holds the lock, if that is due and nobody has done
// so, and returns when to look again.
func (l *tableLock) reportLongHold(ctx context.Context) time.Duration {
	h := l.holder.Load()
	if h == nil {
		return longHold
	}
	held := l.now() - h.since
	if held < longHold {
		return longHold - held
	}
	if h.by.reported.CompareAndSwap(false, true) {
		attrs := append([]slog.Attr{slog.String("table", l.name), slog.Duration("held", held)}, h.by.attrs()...)
		l.db.logger.LogAttrs(ctx, slog.LevelWarn, "A write transaction holds a table for long, and others wait for it", attrs...)
	}
	return longHold
}

func (c *claim) attrs() []slog.Attr {
	names := make([]string, len(c.holds))
	for i := range c.holds {
		names[i] = c.holds[i].of.Name()
	}
	attrs := []slog.Attr{slog.Any("tables", names), slog.Any("began", c.began.lines())}
	if l := c.waitsFor.Load(); l != nil {
		attrs = append(attrs, slog.String("waits_for", l.name))
	}
	return attrs
}
