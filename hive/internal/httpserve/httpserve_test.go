package httpserve_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive/internal/httpserve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipes is a listener without a network, so that the server runs in virtual time.
type pipes struct {
	user    atomic.Int64 // whose what is dialed is; 0: nobody knows
	network atomic.Bool  // what is dialed comes from a network
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	if user := p.user.Load(); user != 0 {
		server = peer{server, uint32(user - 1)}
	}
	if p.network.Load() {
		server = remote{server}
	}
	p.conns <- server
	return client
}

// as has what is dialed from now on be of a user.
func (p *pipes) as(uid int64) { p.user.Store(uid + 1) }

// peer is a connection of a user.
type peer struct {
	net.Conn
	uid uint32
}

func (p peer) UID() uint32 { return p.uid }

// remote is a connection of a network.
type remote struct{ net.Conn }

func (remote) LocalAddr() net.Addr { return &net.TCPAddr{} }

type fixture struct {
	*pipes
	log  bytes.Buffer
	stop func() error
}

// serve runs handler until the end of the test.
func serve(t *testing.T, handler http.HandlerFunc) *fixture {
	t.Helper()
	return serveHandler(t, handler)
}

func serveHandler(t *testing.T, handler http.Handler) *fixture {
	t.Helper()
	f := &fixture{pipes: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	result := make(chan error, 1)
	fail := func(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }
	go func() {
		result <- httpserve.Serve(ctx, f.pipes, handler, fail, slog.New(slog.NewTextHandler(&f.log, nil)))
	}()
	f.stop = sync.OnceValue(func() error { cancel(); return <-result })
	t.Cleanup(func() { _ = f.stop() })
	return f
}

// send writes a request and returns all that comes back until the server closes the connection.
func (f *fixture) send(t *testing.T, request string) string {
	t.Helper()
	conn := f.dial()
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.WriteString(conn, request) }()
	answer, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("reading: %v", err)
	}
	return string(answer)
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") }

const root = 0

const get = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

func TestClientThatIsSlowWithItsHeadersIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, ok)
		began := time.Now()
		f.send(t, "GET / HTTP/1.1\r\nHost:")
		if took := time.Since(began); took < 4*time.Second || took > 10*time.Second {
			t.Errorf("cut off after %v", took)
		}
	})
}

func TestClientThatIsSlowWithItsBodyIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var readErr error
		f := serve(t, func(w http.ResponseWriter, r *http.Request) { _, readErr = io.ReadAll(r.Body) })
		began := time.Now()
		f.send(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
		if took := time.Since(began); readErr == nil || took > 30*time.Second {
			t.Errorf("cut off after %v with %v", took, readErr)
		}
	})
}

func TestClientThatIsSlowToReadIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			var err error
			for chunk := make([]byte, 64<<10); err == nil; {
				_, err = w.Write(chunk)
			}
			ended <- err
		})
		conn := f.dial()
		defer func() { _ = conn.Close() }()
		began := time.Now()
		_, _ = io.WriteString(conn, get)
		if err := <-ended; time.Since(began) > time.Minute {
			t.Errorf("cut off after %v with %v", time.Since(began), err)
		}
	})
}

func TestSilentAndSlowConnectionsGiveWay(t *testing.T) {
	for name, send := range map[string]string{"silent": "", "slow": "GET / HTTP/1.1\r\nHost:", "idle": strings.Replace(get, "Connection: close\r\n", "", 1)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := serve(t, ok)
				var open []net.Conn
				for range 500 {
					conn := f.dial()
					go func() { _, _ = io.Copy(io.Discard, conn) }()
					_, _ = io.WriteString(conn, send)
					open = append(open, conn)
				}
				synctest.Wait()
				began := time.Now()
				for range 200 {
					if answer := f.send(t, get); !strings.Contains(answer, "200 OK") || time.Since(began) > 0 {
						t.Fatalf("one more: %q after %v", answer, time.Since(began))
					}
				}
				for _, c := range open {
					_ = c.Close()
				}
			})
		})
	}
}

func TestConnectionsAreBoundedAndRootComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answering atomic.Int32
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				answering.Add(1)
				defer answering.Add(-1)
				<-r.Context().Done()
			}
			ok(w, r)
		})
		var long []net.Conn
		for range 500 {
			conn := f.dial()
			_, _ = io.WriteString(conn, strings.Replace(get, "/", "/long", 1))
			long = append(long, conn)
		}
		synctest.Wait()
		began, refused := time.Now(), f.dial()
		if _, err := refused.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) > 0 {
			t.Errorf("one too many: %v after %v", err, time.Since(began))
		}
		f.as(root)
		if answer := f.send(t, get); !strings.Contains(answer, "200 OK") {
			t.Errorf("root: %q", answer)
		}
		synctest.Wait()
		if n := answering.Load(); n != 499 {
			t.Errorf("%d requests of others are being answered, expected 499", n)
		}
		// Others do not take the place of root.
		var roots []net.Conn
		for range 500 {
			roots = append(roots, f.dial())
		}
		f.user.Store(0)
		synctest.Wait()
		refused = f.dial()
		if _, err := refused.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("in place of root: %v", err)
		}
		for _, c := range append(long, roots...) {
			_ = c.Close()
		}
	})
}

func TestIdleConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, ok)
		began := time.Now()
		f.send(t, strings.Replace(get, "Connection: close\r\n", "", 1))
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("closed after %v", took)
		}
	})
}

func TestBodyAndHeadersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var readErr error
		f := serve(t, func(w http.ResponseWriter, r *http.Request) { _, readErr = io.Copy(io.Discard, r.Body) })
		size := 2 << 20
		f.send(t, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size)))
		var tooBig *http.MaxBytesError
		if !errors.As(readErr, &tooBig) {
			t.Errorf("body: got %v", readErr)
		}
		answer := f.send(t, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
		if !strings.Contains(answer, "431") {
			t.Errorf("headers: got %q", answer)
		}
	})
}

// What comes after the headers is not read: it may be much, in small chunks.
func TestABodyFromTheNetworkIsNotRead(t *testing.T) {
	for _, request := range []string{"POST /", "OPTIONS *"} { // net/http itself would answer the second one
		t.Run(request, func(t *testing.T) { bodyIsNotRead(t, request) })
	}
}

func bodyIsNotRead(t *testing.T, request string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was handled") })
		f.network.Store(true)
		conn := f.dial()
		send := func(text string) error {
			_, err := io.WriteString(conn, text)
			return err
		}
		if err := send(request + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 413 ") {
			t.Errorf("answer %q, %v", answer, err)
		}
		if send("1\r\nx\r\n") == nil {
			t.Error("the connection is still open")
		}
	})
}

func TestPanicIsAnAnswerAndTheServerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if calls++; calls == 1 {
				panic("ouch")
			}
			ok(w, r)
		})
		if answer := f.send(t, get); !strings.Contains(answer, "500") || !strings.Contains(answer, "failed at this request") {
			t.Errorf("got %q", answer)
		}
		if answer := f.send(t, get); !strings.Contains(answer, "fine") {
			t.Errorf("afterwards: %q", answer)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
		if log := f.log.String(); !strings.Contains(log, "ouch") || !strings.Contains(log, "httpserve_test.go") {
			t.Errorf("log without value and stack: %s", log)
		}
	})
}

func TestPanicAfterTheAnswerHasBegunCutsItOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic("ouch")
		})
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(f.send(t, get))), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if body, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the client takes %q for the whole: %v", body, err)
		}
	})
}

func TestStopWaitsForRequestsButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stuck" {
				<-release
				return
			}
			time.Sleep(time.Second)
			ok(w, r)
		})
		answers := make(chan string, 2)
		go func() { answers <- f.send(t, get) }()
		go func() { answers <- f.send(t, strings.Replace(get, "/ ", "/stuck ", 1)) }()
		synctest.Wait()
		began := time.Now()
		if err := f.stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < time.Second || took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		close(release)
		if both := <-answers + <-answers; strings.Count(both, "fine") != 1 {
			t.Errorf("got %q", both)
		}
	})
}
