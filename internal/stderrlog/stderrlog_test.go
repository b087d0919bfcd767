package stderrlog

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reader is a writer that blocks while nobody reads it.
type reader struct {
	reads chan struct{} // nil: everything is read

	mu   sync.Mutex
	text strings.Builder
}

func (r *reader) Write(b []byte) (int, error) {
	if r.reads != nil {
		<-r.reads
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *reader) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Split(strings.TrimSuffix(r.text.String(), "\n"), "\n")
}

func TestARecordIsWrittenBeforeLoggingReturns(t *testing.T) {
	r := &reader{}
	log := New(r)
	for i := range 100 {
		log.Info("record", "number", i)
		if lines := r.lines(); len(lines) != i+1 || !strings.HasSuffix(lines[i], fmt.Sprintf(`level=INFO msg=record number=%d`, i)) {
			t.Fatalf("after record %d: %q", i, lines)
		}
	}
}

func TestALogThatNobodyReadsStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{reads: make(chan struct{})}
		log := New(r)
		began := time.Now()
		log.Info("first")
		if took := time.Since(began); took != patience {
			t.Errorf("the first record took %v", took)
		}
		const records = 3000
		text := strings.Repeat("x", 1000)
		for i := range records {
			log.Info(text, "number", i)
		}
		if took := time.Since(began); took != patience {
			t.Errorf("all records took %v", took)
		}
		close(r.reads)
		synctest.Wait()
		lines := r.lines()
		last, kept := lines[len(lines)-1], len(lines)-2
		if want := fmt.Sprintf(`level=WARN msg="Log records are lost, because nobody read the log" records=%d`, records-kept); !strings.HasSuffix(last, want) {
			t.Errorf("the last line is %q, want %q", last, want)
		}
		if kept < maxWaiting/1200 || kept > maxWaiting/1000 {
			t.Errorf("%d records were kept", kept)
		}
		for i, line := range lines[1 : 1+kept] {
			if !strings.HasSuffix(line, fmt.Sprintf(" number=%d", i)) {
				t.Fatalf("record %d is %q", i, line)
			}
		}
		log.Info("after")
		if lines := r.lines(); !strings.HasSuffix(lines[len(lines)-1], "msg=after") {
			t.Errorf("the last line is %q", lines[len(lines)-1])
		}
	})
}

func TestAReaderThatIsSlowForAMomentGetsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{reads: make(chan struct{})}
		log := New(r)
		go func() {
			time.Sleep(patience - 1)
			close(r.reads)
		}()
		log.Info("a")
		log.Info("b")
		if lines := r.lines(); len(lines) != 2 {
			t.Errorf("%q", lines)
		}
	})
}

// A serial line is such a reader.
func TestARecordWaitsForASlowReaderOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{reads: make(chan struct{})}
		log := New(r)
		reading := make(chan struct{})
		go func() {
			for {
				time.Sleep(2 * patience)
				select {
				case r.reads <- struct{}{}:
				case <-reading:
					return
				}
			}
		}()
		began := time.Now()
		for range 10 {
			log.Info("x")
			time.Sleep(patience / 2)
		}
		if took := time.Since(began); took != 6*patience {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Minute)
		if lines := r.lines(); len(lines) != 10 {
			t.Errorf("%q", lines)
		}
		close(reading)
	})
}

type broken struct{ error }

func (b broken) Write([]byte) (int, error) { return 0, b.error }

func TestAnErrorOfWritingIsReturned(t *testing.T) {
	want := errors.New("the reader has gone")
	record := slog.NewRecord(time.Now(), slog.LevelInfo, "x", 0)
	if err := New(broken{want}).Handler().Handle(t.Context(), record); !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
}
