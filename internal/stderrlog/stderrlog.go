// Package stderrlog logs to a file that somebody else reads, such as standard error, and keeps
// the program running when nobody does: the reader of a pipe hangs, or a terminal is stopped with
// Ctrl-S.
package stderrlog

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// patience is how long a record may take to be written before records are no longer waited for.
	patience = time.Second
	// maxWaiting is the maximum number of bytes that wait to be written.
	maxWaiting = 256 << 10
)

// New returns a logger that writes text to w, for which it is safe for concurrent use. Each
// record is written before the call that logs it returns. If that takes more than a second, the
// logger stops waiting until w accepts what there is, and buffers 256 KiB. Further records are
// lost, and their number is logged later. What is buffered when the process exits is lost, too.
func New(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(&writer{to: w, waiting: newBatch()}, nil))
}

// writer writes to another writer, which may block.
type writer struct {
	to io.Writer

	mu      sync.Mutex
	waiting *batch
	lost    int  // number of records that did not fit into waiting
	writing bool // a goroutine is
	stuck   bool // it has taken too long, and has not written everything since then
}

// batch is a number of records that are written together.
type batch struct {
	text    []byte
	err     error
	written chan struct{} // closed once text was written, or err is set
}

func newBatch() *batch { return &batch{written: make(chan struct{})} }

// Write writes a record. An error is that of writing it, unless it is not waited for.
func (w *writer) Write(record []byte) (int, error) {
	b, wait := w.add(record)
	if !wait {
		return len(record), nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-b.written:
		return len(record), b.err
	case <-timer.C:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stuck = w.writing
		return len(record), nil
	}
}

// add adds a record to the batch that waits, and reports whether to wait for it.
func (w *writer) add(record []byte) (b *batch, wait bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting.text) > 0 && len(w.waiting.text)+len(record) > maxWaiting {
		w.lost++
		return nil, false
	}
	b = w.waiting
	b.text = append(b.text, record...)
	if !w.writing {
		w.writing = true
		go w.writeAll()
	}
	return b, !w.stuck
}

// writeAll writes batches until none is left.
func (w *writer) writeAll() {
	for {
		b, lost, ok := w.next()
		if !ok {
			return
		}
		_, b.err = w.to.Write(b.text)
		if lost > 0 {
			w.report(lost)
		}
		close(b.written)
	}
}

// next returns the next batch, and the number of records that were lost after it.
func (w *writer) next() (b *batch, lost int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting.text) == 0 {
		w.writing, w.stuck = false, false
		return nil, 0, false
	}
	b, lost = w.waiting, w.lost
	w.waiting, w.lost = newBatch(), 0
	return b, lost, true
}

// report logs that records were lost.
func (w *writer) report(lost int) {
	record := slog.NewRecord(time.Now(), slog.LevelWarn, "Log records are lost, because nobody read the log", 0)
	record.AddAttrs(slog.Int("records", lost))
	_ = slog.NewTextHandler(w.to, nil).Handle(context.Background(), record) // there is nowhere else to report an error
}
