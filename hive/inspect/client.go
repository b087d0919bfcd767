package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// clientTimeout bounds a request, but for those whose answer goes on and on.
const clientTimeout = 30 * time.Second

// maxErrorBody bounds what is read of an error.
const maxErrorBody = 1 << 20

// APIError is an error that the server answered with.
type APIError struct {
	Status  int    // of HTTP
	Message string // the text of the error
}

func (e *APIError) Error() string { return e.Message }

// UnreachableError is the error of a socket at which nobody answers.
type UnreachableError struct {
	Socket string
	Hint   string // what to do
	Err    error
	// Changing reports that the request was to change something. If nobody answered, it may still do so.
	Changing bool
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cannot reach the agent at %s: %s; %s", e.Socket, e.reason(), e.Hint)
}

// Unwrap returns why.
func (e *UnreachableError) Unwrap() error { return e.Err }

func (e *UnreachableError) reason() string {
	var op *net.OpError
	var timeout net.Error
	var untrusted *untrustedError
	if errors.As(e.Err, &untrusted) {
		return untrusted.Error()
	}
	dialed := !errors.As(e.Err, &op) || op.Op != "dial"
	switch {
	case errors.Is(e.Err, fs.ErrNotExist):
		return "there is no such socket"
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "nobody is listening"
	case errors.Is(e.Err, fs.ErrPermission):
		return onlyOwner
	case errors.As(e.Err, &timeout) && timeout.Timeout():
		return "it does not answer" + e.later()
	case dialed:
		return "it closed the connection: it is ending or too busy, or it refuses you: " + onlyOwner + e.later()
	}
	return op.Err.Error()
}

func (e *UnreachableError) later() string {
	if e.Changing {
		return ", and may still do what it was asked"
	}
	return ""
}

const onlyOwner = "only root and the user that the agent runs as may ask it"

// Client asks a running hive. It is safe for concurrent use and keeps no connections.
type Client struct {
	socket  string
	hint    string
	timeout time.Duration // of a request
	http    http.Client
	broken  error // what every request fails with; nil if there is a socket
}

// NewBrokenClient returns a client whose requests all fail with err. Use it when the socket is not known, so that no other agent
// is asked by mistake.
func NewBrokenClient(err error) *Client { return &Client{broken: err} }

// NewClient returns a client for a unix socket. It believes only those who listen as root or as this user; root also believes
// the user to whom the directory of the socket belongs. Nobody else may be able to write to that directory.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return dialTrusted(ctx, socket) }
	return &Client{
		socket:  socket,
		timeout: clientTimeout,
		hint:    "start one, or name its socket with --socket",
		http:    http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
	}
}

// WithHint returns a client whose UnreachableErrors end with another hint.
func (c *Client) WithHint(hint string) *Client {
	other := *c
	other.hint = hint
	return &other
}

// WithTimeout returns a client whose requests may take that long, in place of 30 seconds.
func (c *Client) WithTimeout(d time.Duration) *Client {
	other := *c
	other.timeout = d
	return &other
}

// Get reads path and decodes the answer into what into points to. Its errors are *APIError, *UnreachableError, that of ctx, and
// of an answer that is cut off or not the expected JSON.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	return c.Send(ctx, http.MethodGet, path, query, nil, into)
}

// Send is Get with another method and a body, which may be nil.
func (c *Client) Send(ctx context.Context, method, path string, query url.Values, body []byte, into any) error {
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := c.do(bounded, method, path, query, body)
	if err == nil {
		defer func() { _ = resp.Body.Close() }() // it has been read
		err = json.NewDecoder(resp.Body).Decode(into)
	}
	return c.failure(ctx, method, path, err)
}

// Follow reads path, whose answer is JSON values, one after another for as long as there is something to tell. The end of the
// answer ends the sequence; an error is the last thing that it yields, and one of those of Get. The values are the caller's.
func (c *Client) Follow(ctx context.Context, path string, query url.Values) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		resp, err := c.do(ctx, http.MethodGet, path, query, nil)
		if err != nil {
			yield(nil, c.failure(ctx, http.MethodGet, path, err))
			return
		}
		defer func() { _ = resp.Body.Close() }() // it has been read
		for values := json.NewDecoder(resp.Body); ; {
			var value json.RawMessage
			switch err := values.Decode(&value); {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(nil, c.failure(ctx, http.MethodGet, path, err))
				return
			case !yield(value, nil):
				return
			}
		}
	}
}

// do returns the response unless it is an error.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	u := url.URL{Scheme: "http", Host: "agent", Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }() // it has been read
		return nil, apiError(resp)
	}
	return resp, err
}

// failure returns the error as Get documents it.
func (c *Client) failure(ctx context.Context, method, path string, err error) error {
	var refused *APIError
	var request *url.Error
	switch {
	case err == nil, c.broken != nil, errors.As(err, &refused):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &request):
		return &UnreachableError{Socket: c.socket, Hint: c.hint, Err: request.Err, Changing: method != http.MethodGet}
	}
	return badAnswer(path, err)
}

func badAnswer(path string, err error) error {
	var network net.Error
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) {
		return fmt.Errorf("the agent's answer to %s was cut off: the agent has ended, or it took too long: %w", path, err)
	}
	return fmt.Errorf("cannot understand the agent's answer to %s: %w", path, err)
}

func apiError(resp *http.Response) error {
	var body errorBody
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxErrorBody)).Decode(&body); err != nil || body.Error == "" {
		body.Error = "the agent answered " + resp.Status
	}
	return &APIError{Status: resp.StatusCode, Message: body.Error}
}
