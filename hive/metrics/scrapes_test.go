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

	"github.com/prometheus/common/expfmt"
)

// numbered answers each request with its number, after a second.
func numbered() (http.Handler, *atomic.Int32) {
	var n atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mine := n.Add(1)
		<-time.After(time.Second)
		w.Header().Set("Content-Type", "text/numbers")
		_, _ = fmt.Fprintf(w, "%d %s", mine, r.Header.Get("Accept-Encoding"))
	}), &n
}

// ask sends a request, and returns where its answer will be.
func ask(s http.Handler, encoding string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	r.Header.Set("Accept-Encoding", encoding)
	w := httptest.NewRecorder()
	go s.ServeHTTP(w, r)
	return w
}

func TestScrapesThatWaitShareOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, n := numbered()
		s := newScrapes(next, slog.New(slog.DiscardHandler))
		first := ask(s, "identity")
		time.Sleep(time.Second / 2) // the first has its turn: its values may be older than the next request
		var same, compressed []*httptest.ResponseRecorder
		for range 300 {
			same = append(same, ask(s, "gzip;q=0, br"))
			synctest.Wait()
		}
		for range 300 {
			compressed = append(compressed, ask(s, "br, gzip"))
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
		other := ask(s, "")
		cancel()
		<-ended
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if other.Code != http.StatusOK || other.Body.Len() == 0 {
			t.Errorf("the other got %d %q", other.Code, other.Body)
		}
	})
}

// Otherwise anybody could select the metrics that others get.
func TestAnAnswerDependsOnTheFormatAloneAndNotOnOneClient(t *testing.T) {
	for _, accept := range []string{
		"", "text/plain;version=0.0.4", "text/plain;escaping=dots", "application/openmetrics-text;escaping=allow-utf-8;q=0.9,*/*;q=0.1",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;escaping=values",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=compact-text",
	} {
		var got *http.Request
		s := newScrapes(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }), slog.New(slog.DiscardHandler))
		r := httptest.NewRequest(http.MethodHead, "/metrics?name[]=x", strings.NewReader("body"))
		r.Header = http.Header{"Accept": {accept}, "Accept-Encoding": {"br, gzip"}, "X-Other": {"y"}}
		s.ServeHTTP(httptest.NewRecorder(), r)
		if got.Method != http.MethodGet || got.URL.String() != "/metrics" || got.Body != http.NoBody || got.Header.Get("X-Other") != "" {
			t.Errorf("accept %q: %s %s with %v", accept, got.Method, got.URL, got.Header)
		}
		want := expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...)
		if is := expfmt.NegotiateAccept(got.Header, expfmt.DefaultAcceptedFormats()...); is != want || !acceptsGzip(got.Header) {
			t.Errorf("accept %q: format %s with %v, want %s by gzip", accept, is, got.Header, want)
		}
	}
}

func TestScrapeThatPanicsIsAnErrorForAllAndNoneAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		numbers, _ := numbered()
		var broken atomic.Bool
		broken.Store(true)
		s := newScrapes(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if broken.Load() {
				panic("no metrics")
			}
			numbers.ServeHTTP(w, r)
		}), slog.New(slog.NewTextHandler(&log, nil)))
		first, second := ask(s, ""), ask(s, "")
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
		broken.Store(false)
		after := ask(s, "")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if after.Code != http.StatusOK {
			t.Errorf("afterwards: %d", after.Code)
		}
	})
}
