package reconciler_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// logBook keeps the warnings that were logged, by message.
type logBook struct {
	mu    sync.Mutex
	lines map[string][]time.Time
	left  map[string]int // the counts of those that were left out
}

func newLogBook() *logBook { return &logBook{lines: map[string][]time.Time{}, left: map[string]int{}} }

func (b *logBook) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (b *logBook) WithAttrs([]slog.Attr) slog.Handler               { return b }
func (b *logBook) WithGroup(string) slog.Handler                    { return b }

func (b *logBook) Handle(_ context.Context, r slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines[r.Message] = append(b.lines[r.Message], r.Time)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "leftOut" {
			b.left[r.Message] += int(a.Value.Int64())
			b.lines[r.Message+", counts"] = append(b.lines[r.Message+", counts"], r.Time)
		}
		return true
	})
	return nil
}

// most is how many lines with a message there were in any minute.
func (b *logBook) most(message string) (most int) {
	lines := b.lines[message]
	for first, last := 0, 0; last < len(lines); last++ {
		for lines[last].Sub(lines[first]) >= time.Minute {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// told is how many records with a message were logged, or counted.
func (b *logBook) told(message string) int {
	return len(b.lines[message]) - len(b.lines[message+", counts"]) + b.left[message]
}

func TestManyFailingRowsDoNotFillTheLog(t *testing.T) {
	rows := manyRows / 5
	synctest.Test(t, func(t *testing.T) {
		w, book := newWorld(t), newLogBook()
		w.params = func(p *reconciler.Params[row]) { p.Logger, p.NotDone = slog.New(book), nil }
		w.config.Workers = 4
		w.config.MinBackoff = 10 * time.Second // for fewer operations than by default
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.op == "init" {
				return reconciler.Result{}, nil
			}
			return reconciler.Result{}, errBoom
		})
		all := make([]row, rows)
		for i := range all {
			all[i] = row{ID: fmt.Sprint(i)}
		}
		w.write(all...)
		w.start()
		w.pass(5 * time.Minute)
		w.stop()
		failed := map[string]int{}
		for _, c := range w.target.took() {
			failed[c.op]++
		}
		if failed["update"] < 5*rows {
			t.Errorf("only %d updates have failed", failed["update"])
		}
		for message, want := range map[string]int{"update failed": failed["update"], "orphans could not be found": failed["observe"]} {
			if most := book.most(message); most > 100 {
				t.Errorf("%d lines %q in a minute", most, message)
			}
			w.equal(message+": logged and counted", want, book.told(message))
		}
		w.equal("lines about another cause", failed["observe"], len(book.lines["orphans could not be found"]))
	})
}
