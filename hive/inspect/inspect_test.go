package inspect_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func endpoint(pattern string, fn http.HandlerFunc) cell.Cell {
	return cell.Provide(func() inspect.EndpointOut { return inspect.NewEndpoint(pattern, fn, "q") })
}

func echo(w http.ResponseWriter, r *http.Request) {
	inspect.WriteJSON(w, map[string]string{"name": r.PathValue("name"), "q": r.URL.Query().Get("q")})
}

func newHive(t *testing.T, socket string, cells ...cell.Cell) *hive.Hive {
	t.Helper()
	h, err := hive.New(hive.Options{
		Name:      "test-app",
		Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
		LookupEnv: func(name string) (string, bool) { return socket, name == "TEST_APP_SOCKET" },
	}, append(cells, inspect.Cell())...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serve runs a hive with the cells until the end of the test.
func serve(t *testing.T, cells ...cell.Cell) *inspect.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "run", "test.sock")
	h := newHive(t, socket, cells...)
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
	return inspect.NewClient(socket)
}

func wantAPIError(t *testing.T, err error, status int, parts ...string) {
	t.Helper()
	var api *inspect.APIError
	if !errors.As(err, &api) || api.Status != status {
		t.Fatalf("got %#v, want status %d", err, status)
	}
	for _, p := range parts {
		if !strings.Contains(api.Message, p) {
			t.Errorf("message %q does not contain %q", api.Message, p)
		}
	}
}

func TestClientGetsWhatAnEndpointAnswers(t *testing.T) {
	c := serve(t, endpoint("GET /v1/echo/{name}", echo))
	var got map[string]string
	if err := c.Get(t.Context(), "/v1/echo/a b", map[string][]string{"q": {"x&y"}}, &got); err != nil {
		t.Fatal(err)
	}
	if got["name"] != "a b" || got["q"] != "x&y" {
		t.Errorf("got %v", got)
	}
}

func TestAgentEndpointSaysWhichProcessItIs(t *testing.T) {
	var got inspect.Agent
	if err := serve(t).Get(t.Context(), "/v1/agent", nil, &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "test-app" || got.PID != os.Getpid() || got.Started.IsZero() {
		t.Errorf("got %+v", got)
	}
}

func TestErrorsOfTheServerReachTheClient(t *testing.T) {
	c := serve(t,
		endpoint("GET /v1/refuse", func(w http.ResponseWriter, _ *http.Request) {
			inspect.WriteError(w, http.StatusConflict, errors.New("not like this"))
		}),
		endpoint("GET /v1/panic", func(http.ResponseWriter, *http.Request) { panic("ouch") }),
		endpoint("GET /v1/plain", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "text", http.StatusTeapot) }),
		endpoint("GET /v1/channel", func(w http.ResponseWriter, _ *http.Request) { inspect.WriteJSON(w, make(chan int)) }),
		endpoint("POST /v1/change", echo),
	)
	get := func(path string) error { return c.Get(t.Context(), path, nil, new(any)) }
	wantAPIError(t, get("/v1/refuse"), http.StatusConflict, "not like this")
	wantAPIError(t, get("/v1/panic"), http.StatusInternalServerError, "its log says how")
	wantAPIError(t, get("/v1/plain"), http.StatusTeapot, "418")
	wantAPIError(t, get("/v1/channel"), http.StatusInternalServerError, "cannot encode")
	wantAPIError(t, get("/v1/nothing"), http.StatusNotFound, "there is no GET /v1/nothing; there are: GET /v1/agent, GET /v1/channel")
	wantAPIError(t, get("/v1/change"), http.StatusNotFound, "there is no GET /v1/change", "POST /v1/change")
}

func TestFaultyEndpointsFailTheStart(t *testing.T) {
	for name, tt := range map[string]struct {
		cells []cell.Cell
		want  string
	}{
		"no method":  {[]cell.Cell{endpoint("/v1/x", echo)}, "expected a method and a path"},
		"bad":        {[]cell.Cell{endpoint("GET /v1/{", echo)}, `endpoint "GET /v1/{"`},
		"twice":      {[]cell.Cell{endpoint("GET /v1/x", echo), endpoint("GET /v1/x", echo)}, "conflicts"},
		"no handler": {[]cell.Cell{cell.Provide(func() inspect.EndpointOut { return inspect.NewEndpoint("GET /v1/x", nil) })}, "no handler"},
	} {
		t.Run(name, func(t *testing.T) {
			err := newHive(t, filepath.Join(t.TempDir(), "s"), tt.cells...).Start(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestInheritedListenerIsServed(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "inherited.sock")
	l, err := inspect.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	h := newHive(t, "/nowhere/else.sock", cell.Provide(func() inspect.Listener { return inspect.Listener{Listener: l} }))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := inspect.NewClient(socket).Get(t.Context(), "/v1/agent", nil, new(any)); err != nil {
		t.Error(err)
	}
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStartFailsIfAnAgentIsAlreadyThere(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "x.sock")
	l, err := inspect.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = newHive(t, socket).Start(t.Context())
	if !errors.Is(err, inspect.ErrInUse) || !strings.Contains(err.Error(), socket) {
		t.Errorf("got %v", err)
	}
}

func TestClientSaysWhyItCannotReachTheAgentAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	leaveStale(t, stale)
	for socket, want := range map[string]string{
		filepath.Join(dir, "none.sock"): "there is no such socket; start one, or name its socket with --socket",
		stale:                           "nobody is listening",
	} {
		err := inspect.NewClient(socket).Get(t.Context(), "/v1/agent", nil, new(any))
		var u *inspect.UnreachableError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), "cannot reach the agent at "+socket+": "+want) {
			t.Errorf("got %v", err)
		}
	}
	err := inspect.NewClient(stale).WithHint("do this").Get(t.Context(), "/", nil, new(any))
	if err == nil || !strings.HasSuffix(err.Error(), "; do this") {
		t.Errorf("got %v", err)
	}
}

func TestBrokenClientAsksNobody(t *testing.T) {
	broken := errors.New("which agent?")
	c := inspect.NewBrokenClient(broken).WithHint("start it")
	if err := c.Get(t.Context(), "/v1/agent", nil, new(any)); !errors.Is(err, broken) || err.Error() != "which agent?" {
		t.Errorf("got %v", err)
	}
	for _, err := range c.Follow(t.Context(), "/v1/agent", nil) {
		if !errors.Is(err, broken) {
			t.Errorf("followed: got %v", err)
		}
	}
}

func TestClientReturnsTheErrorOfItsContext(t *testing.T) {
	blocked := make(chan struct{})
	defer close(blocked)
	c := serve(t, endpoint("GET /v1/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	ctx, cancel := context.WithTimeout(t.Context(), 20_000_000)
	defer cancel()
	if err := c.Get(ctx, "/v1/slow", nil, new(any)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestAnswerThatIsNotJSONIsAnError(t *testing.T) {
	c := serve(t, endpoint("GET /v1/text", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	if err := c.Get(t.Context(), "/v1/text", nil, new(any)); err == nil || !strings.Contains(err.Error(), "cannot understand") {
		t.Errorf("got %v", err)
	}
}

func TestAnswerOfAnAgentThatDiesMidwayIsCutOff(t *testing.T) {
	c := serve(t, endpoint("GET /v1/half", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"rows":[1,`))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	if err := c.Get(t.Context(), "/v1/half", nil, new(any)); err == nil || !strings.Contains(err.Error(), "answer to /v1/half was cut off") {
		t.Errorf("got %v", err)
	}
}

// leaveStale leaves the socket of a process that has died.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnEndpointCanTakeLargerRequests(t *testing.T) {
	read := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			inspect.WriteError(w, http.StatusRequestEntityTooLarge, err)
			return
		}
		inspect.WriteJSON(w, len(body))
	}
	large := cell.Provide(func() inspect.EndpointOut {
		out := inspect.NewEndpoint("POST /v1/large", http.HandlerFunc(read))
		out.Endpoint.MaxBody = 3 << 20
		return out
	})
	client := serve(t, endpoint("POST /v1/usual", read), large)
	for _, c := range []struct {
		path string
		size int
		fits bool
	}{
		{"/v1/usual", 1 << 20, true}, {"/v1/usual", 1<<20 + 1, false}, {"/v1/large", 3 << 20, true}, {"/v1/large", 3<<20 + 1, false},
	} {
		var got int
		err := client.Send(t.Context(), http.MethodPost, c.path, nil, make([]byte, c.size), &got)
		if c.fits {
			if err != nil || got != c.size {
				t.Errorf("%d bytes to %s: %d, %v", c.size, c.path, got, err)
			}
			continue
		}
		wantAPIError(t, err, http.StatusRequestEntityTooLarge, "too large")
	}
}

func TestAClientWaitsAsLongAsItIsTold(t *testing.T) {
	asked := make(chan struct{})
	client := serve(t, endpoint("GET /v1/slow", func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	var none struct{}
	if err := client.WithTimeout(50*time.Millisecond).Get(t.Context(), "/v1/slow", nil, &none); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	<-asked
}
