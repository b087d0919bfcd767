package inspect

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

// journal is a log that a test reads.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

// A user who may not use the API and connects thousands of times does not fill the log of a hive; the refusals are counted.
func TestRefusedConnectionsDoNotFillTheLog(t *testing.T) {
	const connections = 3_000
	var log journal
	var logger *slog.Logger
	h, err := hive.New(hive.Options{
		Name: "test", Logger: slog.New(slog.NewTextHandler(&log, nil)), LookupEnv: func(string) (string, bool) { return "", false },
	}, cell.Module("api", "", cell.Invoke(func(l *slog.Logger) { logger = l })))
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	listener := &peerListener{Listener: l, allowed: func(uint32) bool { return false }, logger: logger}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = listener.Accept() // returns when it is closed
	}()
	for range connections {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); len(answer) > 0 || err != nil {
			t.Fatalf("got %q, %v", answer, err)
		}
		_ = conn.Close()
	}
	_ = l.Close()
	<-ended
	if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "Refused a connection"); n < 50 || n > 101 || !strings.Contains(log.String(), "leftOut=") {
		t.Errorf("%d lines for %d connections", n, connections)
	}
}
