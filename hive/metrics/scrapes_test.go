package metrics

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// numbered answers each request with its number, after a second. "panic" panics.
func numbered() (http.Handler, *atomic.Int32) {
	var n atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mine := n.Add(1)
		<-time.After(time.Second)
		if r.URL.Path == "/panic" {
			panic("no metrics")
		}
		w.Header().Set("Content-Type", "text/numbers")
		_, _ = fmt.Fprintf(w, "%d %s", mine, r.Header.Get("Accept-Encoding"))
	}), &n
}

// ask sends a request, and returns where its answer will be.
func ask(s http.Handler, path, encoding string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.Header.Set("Accept-Encoding", encoding)
	w := httptest.NewRecorder()
	go s.ServeHTTP(w, r)
	return w
}

func TestScrapesThatWaitShareOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, n := numbered()
		s := newScrapes(next, slog.New(slog.DiscardHandler))
		first := ask(s, "/metrics", "identity")
		time.Sleep(time.Second / 2) // the first has its turn: its values may be older than the next request
		var same, compressed []*httptest.ResponseRecorder
		for range 300 {
			same = append(same, ask(s, "/metrics", "gzip;q=0, br"))
			synctest.Wait()
		}
		for range 300 {
			compressed = append(compressed, ask(s, "/metrics", "br, gzip"))
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n.Load() != 3 {
			t.Errorf("%d answers were made, want 3", n.Load())
		}
		for want, all := range map[string][]*httptest.ResponseRecorder{"1 ": {first}, "2 ": same, "3 gzip": compressed} {
			for _, w := range all {
				if w.Code != http.StatusOK || w.Body.String() != want || w.Header().Get("Content-Type") != "text/numbers" {
					t.Fatalf("answer %d %q %v, want %q", w.Code, w.Body, w.Header(), want)
				}
			}
		}
	})
}

func TestAScrapeWhoseClientHasGoneIsForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, _ := numbered()
		s := newScrapes(next, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", http.NoBody)
		ended := make(chan bool)
		go func() { s.ServeHTTP(httptest.NewRecorder(), r); close(ended) }()
		synctest.Wait()
		other := ask(s, "/metrics", "")
		cancel()
		<-ended
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if other.Code != http.StatusOK || other.Body.Len() == 0 {
			t.Errorf("the other got %d %q", other.Code, other.Body)
		}
	})
}

func TestScrapeThatPanicsIsAnErrorForAllAndNoneAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		next, _ := numbered()
		s := newScrapes(next, slog.New(slog.NewTextHandler(&log, nil)))
		first, second := ask(s, "/panic", ""), ask(s, "/panic", "")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for _, w := range []*httptest.ResponseRecorder{first, second} {
			if text, _ := io.ReadAll(w.Body); w.Code != http.StatusInternalServerError || !strings.Contains(string(text), "the log says why") {
				t.Errorf("answer %d %q", w.Code, text)
			}
		}
		if !strings.Contains(log.String(), "no metrics") {
			t.Errorf("log: %s", &log)
		}
		after := ask(s, "/metrics", "")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if after.Code != http.StatusOK {
			t.Errorf("afterwards: %d", after.Code)
		}
	})
}
