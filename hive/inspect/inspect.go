// Package inspect is the HTTP API of a running hive on a unix socket: the server, as a cell, and the client.
package inspect

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"

	"github.com/statehive/statehive/hive/cell"
)

// Endpoint is a path of the API.
type Endpoint struct {
	// Pattern is one of http.ServeMux with a method, such as "GET /v1/tables/{name}".
	Pattern string
	// Handler must not keep the connection busy for longer than it takes to write what it has.
	Handler http.Handler
}

// EndpointOut contributes an endpoint.
type EndpointOut struct {
	cell.Out
	Endpoint Endpoint `group:"inspect-endpoints"`
}

// NewEndpoint makes the contribution of an endpoint.
func NewEndpoint(pattern string, h http.Handler) EndpointOut {
	return EndpointOut{Endpoint: Endpoint{Pattern: pattern, Handler: h}}
}

// Listener is an open socket that was handed to the process; provide one to have the server use it.
type Listener struct{ net.Listener }

// Config of the server.
type Config struct {
	// Socket is the path of the unix socket; empty for DefaultSocket of the hive's name.
	Socket string `flag:"socket" usage:"unix socket of the API (empty: the default place of the user)"`
}

// Cell serves the endpoints that cells contribute.
func Cell() cell.Cell { return cell.Group() }

// DefaultSocket is where the agent of that name listens if nothing else is said.
func DefaultSocket(name string) string { return "" }

// Listen opens the unix socket at path.
func Listen(path string) (net.Listener, error) { return nil, errors.ErrUnsupported }

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, v any) {}

// WriteError answers with an error, which the client returns as *APIError.
func WriteError(w http.ResponseWriter, status int, err error) {}

// APIError is an error that the server answered with.
type APIError struct {
	Status  int    // of HTTP
	Message string // the text of the error
}

func (e *APIError) Error() string { return e.Message }

// Client asks a running hive. It is safe for concurrent use.
type Client struct{}

// NewClient returns a client for a unix socket.
func NewClient(socket string) *Client { return &Client{} }

// Get reads path and decodes the answer into what into points to.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	return errors.ErrUnsupported
}
