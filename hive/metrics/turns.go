package metrics

import (
	"bytes"
	"net/http"
)

// maxWaiting bounds the scrapes that wait for their turn.
const maxWaiting = 20

// oneByOne handles one request at a time, so that many clients cannot keep all processors busy. The answer is complete before it
// is sent, so a client that does not read it delays nobody. Requests that would wait for more than maxWaiting others are
// refused.
func oneByOne(next http.Handler) http.Handler {
	turn, waiting := make(chan struct{}, 1), make(chan struct{}, maxWaiting)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case waiting <- struct{}{}:
			defer func() { <-waiting }()
		default:
			w.Header().Set("Connection", "close")
			http.Error(w, "too many ask for metrics at once", http.StatusServiceUnavailable)
			return
		}
		select {
		case turn <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		a := answer{header: w.Header(), status: http.StatusOK}
		func() {
			defer func() { <-turn }() // also if it panics
			next.ServeHTTP(&a, r)
		}()
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body.Bytes()) // a client that has gone is no concern of the server
	})
}

// answer holds a response until it is complete.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
