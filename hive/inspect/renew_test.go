package inspect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/health/healthcell"
	"github.com/statehive/statehive/hive/inspect"
)

// eventually polls until try succeeds.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// living is a hive whose socket is tampered with.
type living struct {
	socket string
	before net.Conn // is open all the time
}

func startLiving(t *testing.T, socket string) living {
	t.Helper()
	l := living{socket: socket}
	h := newHive(t, socket, endpoint("GET /v1/echo/{name}", echo), healthcell.Cell())
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	conn, err := net.Dial("unix", l.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	l.before = conn
	return l
}

// health is that of the job that keeps the socket.
func (l living) health() (string, error) {
	body, err := askOn(l.before, "/v1/health")
	var all []health.Status
	if err == nil {
		err = json.Unmarshal(body, &all)
	}
	for _, s := range all {
		if strings.HasSuffix(s.ID, ".socket") {
			return s.Level.String() + " " + s.Message + " " + s.Error, err
		}
	}
	return "", err
}

// wantHealth waits until the health is as expected.
func (l living) wantHealth(t *testing.T, begin, part string) {
	t.Helper()
	eventually(t, func() error {
		got, err := l.health()
		if err == nil && (!strings.HasPrefix(got, begin) || !strings.Contains(got, part)) {
			err = errors.New("health is " + got)
		}
		return err
	})
}

func (l living) answers() error {
	return inspect.NewClient(l.socket).Get(context.Background(), "/v1/echo/x", nil, new(any))
}

// askOn sends one more request on a connection.
func askOn(conn net.Conn, path string) (body []byte, err error) {
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	body, err = io.ReadAll(resp.Body)
	return body, errors.Join(err, resp.Body.Close())
}

func TestSocketThatIsGoneIsMadeAgain(t *testing.T) {
	for name, remove := range map[string]func(socket string) error{
		"socket":    os.Remove,
		"directory": func(socket string) error { return os.RemoveAll(filepath.Dir(socket)) },
		"replaced by that of a dead agent": func(socket string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket + ".dead"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return errors.Join(l.Close(), os.Rename(socket+".dead", socket))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLiving(t, filepath.Join(t.TempDir(), "run", "x.sock"))
			if err := remove(l.socket); err != nil {
				t.Fatal(err)
			}
			eventually(t, l.answers)
			if got := mode(t, l.socket); got.Perm() != 0o600 {
				t.Errorf("the new socket has mode %v", got)
			}
			if _, err := askOn(l.before, "/v1/echo/y"); err != nil {
				t.Errorf("the connection that was open before: %v", err)
			}
		})
	}
}

func TestWhatStandsInTheSocketsPlaceIsReportedAndStays(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(socket string) (remove func() error, err error)
		want string
	}{
		"a file": {func(socket string) (func() error, error) {
			return func() error { return os.Remove(socket) }, os.WriteFile(socket, []byte("precious"), 0o600)
		}, "something else than a socket"},
		"another agent": {func(socket string) (func() error, error) {
			l, err := inspect.Listen(socket)
			return func() error { return l.Close() }, err
		}, "another agent is listening there already"},
		"a directory that others can write to": {func(socket string) (func() error, error) {
			dir := filepath.Dir(socket)
			return func() error { return os.Chmod(dir, 0o700) }, os.Chmod(dir, 0o777)
		}, "can be written to by others"},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLiving(t, filepath.Join(t.TempDir(), "run", "x.sock"))
			if err := os.Remove(l.socket); err != nil {
				t.Fatal(err)
			}
			remove, err := c.put(l.socket)
			if err != nil {
				t.Fatal(err)
			}
			l.wantHealth(t, "Degraded", c.want)
			if err := remove(); err != nil {
				t.Fatalf("what was there is gone: %v", err)
			}
			eventually(t, l.answers)
			l.wantHealth(t, "OK serving at", "")
		})
	}
}

func TestListenerThatEndsRemovesNothingElse(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "x.sock")
	l, err := inspect.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(socket), os.WriteFile(socket, nil, 0o600), l.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(socket); errors.Is(err, fs.ErrNotExist) {
		t.Error("the file that has its name now is gone")
	}
}
