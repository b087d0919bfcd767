package store

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// longHold is how long a table may be locked while others wait for it before a warning is
// logged.
const longHold = time.Second

// tableLock serializes the writers of a table. Waiters get the lock in the order in which
// they have arrived, unless they give up.
type tableLock struct {
	state  atomic.Int32 // lockFree and so on
	mu     sync.Mutex
	queue  []chan struct{}      // a channel for each waiter, closed when it is the waiter's turn
	holder atomic.Pointer[part] // for the waiters to log; nil while the lock changes hands
	// contended is set once somebody has waited for the lock. Until then recording where
	// transactions begin is not worth its cost.
	contended atomic.Bool
	// dropped is the commit that dropped the table, or 0. It is set under the lock.
	dropped atomic.Uint64

	waits, holds histogram
}

const (
	lockFree int32 = iota
	lockHeld
	lockAwaited // held, and somebody is waiting or about to
)

// now returns the time since the database was opened. It costs half as much as time.Now.
func (t *Table) now() time.Duration { return time.Since(t.db.opened) }

// acquire takes the table's lock for a transaction. It returns an error that wraps ctx's
// error, or ErrDropped.
func (t *Table) acquire(ctx context.Context, p *part) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("to write: %w", err)
	}
	l := &t.lock
	if l.state.CompareAndSwap(lockFree, lockHeld) {
		l.waits.observe(0)
	} else if err := t.wait(ctx, p.by); err != nil {
		return err
	}
	return t.hold(p)
}

// tryAcquire takes the table's lock if nobody holds it.
func (t *Table) tryAcquire(p *part) (bool, error) {
	l := &t.lock
	if !l.state.CompareAndSwap(lockFree, lockHeld) {
		return false, nil
	}
	l.waits.observe(0)
	return true, t.hold(p)
}

// hold records the holder of the lock, or releases the lock if the table was dropped.
func (t *Table) hold(p *part) error {
	p.since = t.now()
	t.lock.holder.Store(p)
	if t.lock.dropped.Load() != 0 {
		t.release()
		return ErrDropped
	}
	return nil
}

// Holder describes the transaction that holds the lock of the table: how long it has had it,
// and where it began. It returns "" if the table is not locked.
func (t *Table) Holder() string {
	p := t.lock.holder.Load()
	if p == nil {
		return ""
	}
	return fmt.Sprintf("held for %v by a transaction that began at %s", (t.now() - p.since).Round(time.Millisecond),
		strings.Join(p.by.began.lines(), ", called from "))
}

func (t *Table) wait(ctx context.Context, by *WriteTxn) error {
	t.lock.contended.Store(true)
	turn := t.lock.enqueue()
	if turn == nil {
		t.lock.waits.observe(0)
		return nil
	}
	by.waitsFor.Store(t)
	defer by.waitsFor.Store(nil)
	began := t.now()
	defer func() { t.lock.waits.observe(t.now() - began) }()
	timer := time.NewTimer(t.reportLongHold(ctx))
	defer timer.Stop()
	for {
		select {
		case <-turn:
			return nil
		case <-ctx.Done():
			t.lock.giveUp(turn)
			return fmt.Errorf("waiting to write: %w", ctx.Err())
		case <-timer.C:
			timer.Reset(t.reportLongHold(ctx))
		}
	}
}

// enqueue returns a channel that closes when it is the caller's turn, or nil if the lock
// was free and is the caller's now.
func (l *tableLock) enqueue() (turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Swap(lockAwaited) == lockFree {
		l.state.Store(lockHeld)
		return nil
	}
	turn = make(chan struct{})
	l.queue = append(l.queue, turn)
	return turn
}

// giveUp cancels enqueue.
func (l *tableLock) giveUp(turn chan struct{}) {
	l.mu.Lock()
	i := slices.Index(l.queue, turn)
	if i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // the lock has just been handed over
		l.pass()
	}
}

// pass hands the lock to the next waiter, or frees it.
func (l *tableLock) pass() {
	if l.state.CompareAndSwap(lockHeld, lockFree) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.state.Store(lockFree)
		return
	}
	turn := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	close(turn)
}

func (t *Table) release() {
	p := t.lock.holder.Swap(nil)
	t.lock.holds.observe(t.now() - p.since)
	t.lock.pass()
}

// reportLongHold logs the transaction that holds the lock if it has held the lock for longHold and
// has not been logged yet. It returns how long to wait before checking again.
func (t *Table) reportLongHold(ctx context.Context) time.Duration {
	p := t.lock.holder.Load()
	if p == nil {
		return longHold
	}
	held := t.now() - p.since
	if held < longHold {
		return longHold - held
	}
	if p.by.reported.CompareAndSwap(false, true) {
		attrs := append([]slog.Attr{slog.String("table", t.name), slog.Duration("held", held)}, p.by.attrs()...)
		t.db.logger.LogAttrs(ctx, slog.LevelWarn, "A write transaction has locked a table for long while others wait for it", attrs...)
	}
	return longHold
}

// attrs returns the attributes of a log line about a transaction.
func (txn *WriteTxn) attrs() []slog.Attr {
	names := make([]string, len(txn.parts))
	for i := range txn.parts {
		names[i] = txn.parts[i].of.name
	}
	attrs := []slog.Attr{slog.Any("tables", names), slog.Any("began", txn.began.lines())}
	if t := txn.waitsFor.Load(); t != nil {
		attrs = append(attrs, slog.String("waits_for", t.name))
	}
	return attrs
}

// callSite is the place in the code where a transaction began: up to three return addresses,
// the innermost first.
type callSite [3]uintptr

// callerSite returns the call site of its caller's caller.
func callerSite() (s callSite) {
	const skipped = 3 // runtime.Callers, callerSite, and the method of DB
	runtime.Callers(skipped, s[:])
	return s
}

// callSiteOf returns the start of the function that a transaction runs. That costs nothing,
// whereas walking the stack takes a third of the time of a transaction with one row.
func callSiteOf(fn func(*WriteTxn) error) callSite {
	if fn == nil {
		return callSite{}
	}
	return callSite{reflect.ValueOf(fn).Pointer() + 1} // one more, as in a return address
}

// unknownCallSite is logged for a transaction that began before anybody had waited for one
// of its tables.
const unknownCallSite = "unknown: nobody had waited for its tables before"

// lines returns the file, line and function of each address.
func (s callSite) lines() (lines []string) {
	n := 0
	for n < len(s) && s[n] != 0 {
		n++
	}
	if n == 0 {
		return []string{unknownCallSite}
	}
	frames := runtime.CallersFrames(s[:n])
	for {
		f, more := frames.Next()
		lines = append(lines, fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Function))
		if !more {
			return lines
		}
	}
}
