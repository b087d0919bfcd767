package dbcell

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
)

// onePipe is a listener for one connection without a network, so that the server runs in virtual time.
type onePipe struct {
	conns  chan net.Conn
	closed <-chan struct{}
	close  context.CancelFunc
}

func (p *onePipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *onePipe) Close() error   { p.close(); return nil }
func (p *onePipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

type entry struct{ Name, Text string }

// serveEntries serves a table over a pipe, whose other end is returned, until the end of the test.
func serveEntries(t *testing.T, db *statedb.DB) net.Conn {
	mux := http.NewServeMux()
	mux.Handle("GET "+tablePath, listRows(db))
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	closed, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	listener := &onePipe{conns: make(chan net.Conn), closed: closed.Done(), close: stop}
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	client, other := net.Pipe()
	listener.conns <- other
	t.Cleanup(func() {
		_ = client.Close()
		if err := server.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("the handler does not end with its client: %v", err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return client
}

// TestAWatchOutlivesTheTimeoutsOfARequest waits for an hour before each of two changes.
func TestAWatchOutlivesTheTimeoutsOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		table, err := statedb.NewTable(db, statedb.Schema[entry]{
			Name: "entries", Primary: statedb.NewIndex("name", func(e entry) string { return e.Name }),
		})
		if err != nil {
			t.Fatal(err)
		}
		client := serveEntries(t, db)
		go func() { _, _ = client.Write([]byte("GET /v1/tables/entries?watch HTTP/1.1\r\nHost: x\r\n\r\n")) }()
		answer, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = client.Close() // else closing the body reads on
			_ = answer.Body.Close()
		}()
		lines := bufio.NewReader(answer.Body)
		expect := func(part string) {
			t.Helper()
			if got, err := lines.ReadString('\n'); err != nil || !strings.Contains(got, part) {
				t.Fatalf("got %q (%v), expected %s", got, err, part)
			}
		}
		expect(`"kind":"head"`)
		expect(`"kind":"current"`)
		for _, name := range []string{"a", "b"} {
			time.Sleep(time.Hour)
			if err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				_, _, err := table.Insert(txn, entry{Name: name})
				return err
			}, table); err != nil {
				t.Fatal(err)
			}
			expect(`"key":"` + name + `"`)
			expect(`"kind":"current"`)
		}
	})
}
