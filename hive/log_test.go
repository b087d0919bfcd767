package hive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
)

// pages are a log whose lines a test counts.
type pages struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *pages) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(b)
}

// count returns how many lines with all of the parts were logged since the last call of take.
func (p *pages) count(parts ...string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
lines:
	for line := range strings.Lines(p.buf.String()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue lines
			}
		}
		n++
	}
	return n
}

func (p *pages) take() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buf.Reset()
}

// A cause that comes again and again, in whatever module or job, writes no more than 100 lines a minute, and hides no other one.
func TestNoCauseFillsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log pages
		fails := func(context.Context, health.Health) error { return errors.New("the watch has ended") }
		module := func(id string) cell.Cell {
			return cell.Module(id, "", cell.Invoke(func(l *slog.Logger, jobs job.Group) error {
				for i := range 20_000 {
					l.Error("Request refused", "client", i)
				}
				return jobs.Add(
					job.OneShot("flapping", fails, job.WithRetries(-1), job.WithBackoff(job.Exponential(10*time.Millisecond, 10*time.Millisecond))),
					job.OneShot("stepping", fails, job.WithRetries(-1), job.WithBackoff(job.Exponential(20*time.Millisecond, 20*time.Millisecond))),
				)
			}))
		}
		h, err := hive.New(hive.Options{
			Name: "test", Logger: slog.New(slog.NewTextHandler(&log, nil)), LookupEnv: func(string) (string, bool) { return "", false },
		}, module("a"), module("b"))
		if err == nil {
			err = h.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		for minute := range 3 {
			time.Sleep(time.Minute)
			synctest.Wait()
			for _, m := range []string{"module=a", "module=b"} {
				for _, j := range []string{"flapping", "stepping"} {
					if n := log.count(m, "Job failed", j); n < 50 || n > 100 {
						t.Errorf("minute %d: %d lines of the job %s of %s", minute, n, j, m)
					}
				}
				if n := log.count(m, "Request refused"); n != 51 && minute == 0 {
					t.Errorf("%d lines of requests of %s", n, m)
				}
				if n := log.count(m, fmt.Sprint("leftOut=", 20_000-50), "client=19999"); n != 1 && minute == 0 {
					t.Errorf("what was left out of %s is counted %d times", m, n)
				}
			}
			log.take()
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		log.take()
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if n := log.count("leftOut="); n != 4 {
			t.Errorf("at the stop %d counts are written, want one of each job", n)
		}
	})
}
