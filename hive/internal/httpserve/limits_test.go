package httpserve_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive/internal/httpserve"
)

// endpoints answer /long and /stream when the client goes, /large when it has read the body, and all else at once.
type endpoints struct{}

func (endpoints) Limits(r *http.Request) (l httpserve.Limits) {
	l.Stream = r.URL.Path == "/stream"
	if r.URL.Path == "/large" {
		l.MaxBody = 2 << 20
	}
	return l
}

func (endpoints) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/long", "/stream":
		<-r.Context().Done()
	case "/large", "/body":
		_, _ = io.Copy(io.Discard, r.Body)
	case "/endless":
		for chunk := make([]byte, 64<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	ok(w, r)
}

// ask opens n connections with a request each, and returns them.
func (f *fixture) ask(n int, request string) (open []net.Conn) {
	for range n {
		conn := f.dial()
		_, _ = io.WriteString(conn, request)
		open = append(open, conn)
	}
	synctest.Wait()
	return open
}

func to(path string) string { return strings.Replace(get, "/", path, 1) }

func closeAll(conns ...net.Conn) {
	for _, c := range conns {
		_ = c.Close()
	}
	synctest.Wait()
}

func TestAUserCannotUseUpAllRequestsAndStreams(t *testing.T) {
	const user, other = 1000, 1001
	slow := strings.Replace(to("/large"), "GET", "POST", 1) // the body is missing
	slow = strings.Replace(slow, "\r\n", "\r\nContent-Length: 9\r\n", 1)
	for name, c := range map[string]struct {
		uid     int64
		request string
		most    int
		want    string
	}{
		"requests":               {user, to("/long"), 40, "40 requests of uid 1000 are in hand already"},
		"streams":                {user, to("/stream"), 16, "uid 1000 follows 16 answers that go on already"},
		"streams of root":        {root, to("/stream"), 16, "uid 0 follows 16 answers that go on already"},
		"large requests":         {user, slow, 2, "2 large requests of uid 1000 are in hand already"},
		"large requests of root": {root, slow, 2, "2 large requests of uid 0 are in hand already"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := serveHandler(t, endpoints{})
				f.as(c.uid)
				open := f.ask(c.most, c.request)
				if answer := f.send(t, c.request); !strings.Contains(answer, "429 Too Many Requests") || !strings.Contains(answer, c.want) {
					t.Errorf("one too many: %q", answer)
				}
				for _, uid := range []int64{root, other} {
					f.as(uid)
					if answer := f.send(t, get); !strings.Contains(answer, "200 OK") {
						t.Errorf("uid %d: %q", uid, answer)
					}
				}
				closeAll(open[0])
				f.as(c.uid)
				open = append(open[1:], f.ask(1, c.request)...)
				if answer := f.send(t, c.request); !strings.Contains(answer, c.want) {
					t.Errorf("the place of one that has ended was not taken: %q", answer)
				}
				closeAll(open...)
				if answer := f.send(t, get); !strings.Contains(answer, "200 OK") {
					t.Errorf("afterwards: %q", answer)
				}
			})
		})
	}
}

func TestRootHasNoLimitOfUsualRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serveHandler(t, endpoints{})
		f.as(root)
		open := f.ask(60, to("/long"))
		if answer := f.send(t, get); !strings.Contains(answer, "200 OK") {
			t.Errorf("got %q", answer)
		}
		closeAll(open...)
	})
}

func TestABusyNetworkIsWaitedFor(t *testing.T) {
	for name, after := range map[string]time.Duration{"one ends": 300 * time.Millisecond, "none ends": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := serveHandler(t, endpoints{})
				f.network.Store(true)
				busy := f.ask(500, to("/long"))
				if name == "one ends" {
					time.AfterFunc(after, func() { _ = busy[250].Close() })
				}
				began := time.Now()
				answer := f.send(t, get)
				if served := strings.Contains(answer, "200 OK"); served != (name == "one ends") || time.Since(began) != after {
					t.Errorf("%q after %v", answer, time.Since(began))
				}
				closeAll(busy...)
			})
		})
	}
}

func TestConnectionsOfACrowdedNetworkEndAfterOneRequest(t *testing.T) {
	const keep = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for open, want := range map[int]bool{249: false, 250: true} {
		synctest.Test(t, func(t *testing.T) {
			f := serveHandler(t, endpoints{})
			f.network.Store(true)
			others := f.ask(open, to("/long"))
			conn := f.dial()
			go func() { _, _ = io.WriteString(conn, keep) }()
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.Close != want {
				t.Errorf("beside %d connections: closed %t, want %t", open, answer.Close, want)
			}
			closeAll(append(others, conn)...)
		})
	}
}

func TestClientsThatDoNotSendOrReadGiveWay(t *testing.T) {
	slow := strings.Replace(strings.Replace(to("/body"), "GET", "POST", 1), "\r\n", "\r\nContent-Length: 9\r\n", 1)
	for name, request := range map[string]string{"slow body": slow, "slow reader": to("/endless")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := serveHandler(t, endpoints{})
				f.as(root)
				open := f.ask(500, request)
				for range 200 {
					if answer := f.send(t, get); !strings.Contains(answer, "200 OK") {
						t.Fatalf("one more: %q", answer)
					}
				}
				closeAll(open...)
			})
		})
	}
}
