package metrics

import (
	"bytes"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/common/expfmt"

	"github.com/statehive/statehive/hive/internal/guard"
)

// scrapes answers one request at a time, so that many clients cannot keep all processors busy. All that wait for the same format get
// the same answer, so that none of them waits for long. It is all metrics: a parameter name[] is ignored, since one client must not
// select what others get. An answer is complete before it is sent: a client that does not read it delays nobody.
type scrapes struct {
	next   http.Handler
	logger *slog.Logger
	turn   chan struct{}

	mu      sync.Mutex
	waiting map[format]*scrape
}

// format is how metrics are to be written. There are few.
type format struct {
	text expfmt.Format
	gzip bool
}

// request asks for metrics in the format.
func (f format) request() *http.Request {
	r := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: "/metrics"}, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Accept": {string(f.text)}},
	}
	if f.gzip {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	return r
}

// scrape is an answer for all that waited for it when its turn came.
type scrape struct {
	done   chan struct{} // closed when it is complete
	header http.Header
	status int
	body   bytes.Buffer
}

func newScrapes(next http.Handler, logger *slog.Logger) *scrapes {
	return &scrapes{next: next, logger: logger, turn: make(chan struct{}, 1), waiting: map[format]*scrape{}}
}

// ServeHTTP implements http.Handler.
func (s *scrapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := s.join(format{expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...), acceptsGzip(r.Header)})
	select {
	case <-one.done:
	case <-r.Context().Done():
		return
	}
	maps.Copy(w.Header(), one.header)
	w.WriteHeader(one.status)
	_, _ = w.Write(one.body.Bytes()) // a client that has gone is no concern of the server
}

// join returns the scrape of a format that has not had its turn yet.
func (s *scrapes) join(f format) *scrape {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.waiting[f]
	if one == nil {
		one = &scrape{done: make(chan struct{}), header: http.Header{}, status: http.StatusOK}
		s.waiting[f] = one
		go s.run(one, f)
	}
	return one
}

func (s *scrapes) run(one *scrape, f format) {
	defer close(one.done)
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.mu.Lock()
	delete(s.waiting, f) // who comes from now on gets values of from now on
	s.mu.Unlock()
	err := <-guard.Go(func() error {
		s.next.ServeHTTP(one, f.request())
		return nil
	})
	if err != nil {
		s.logger.Error("Metrics cannot be served", "error", err)
		one.header, one.status = http.Header{}, http.StatusInternalServerError
		one.body.Reset()
		one.body.WriteString("metrics cannot be served; the log says why\n")
	}
}

// Header implements http.ResponseWriter, as do WriteHeader and Write.
func (s *scrape) Header() http.Header         { return s.header }
func (s *scrape) WriteHeader(status int)      { s.status = status }
func (s *scrape) Write(b []byte) (int, error) { return s.body.Write(b) }

// acceptsGzip reports whether a client takes answers compressed by gzip.
func acceptsGzip(h http.Header) bool {
	for _, value := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(value, ",") {
			name, parameters, _ := strings.Cut(coding, ";")
			if strings.TrimSpace(name) != "gzip" {
				continue
			}
			_, weight, given := strings.Cut(parameters, "q=")
			q, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
			return !given || err == nil && q > 0
		}
	}
	return false
}
