package inspect

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/internal/httpserve"
	"github.com/statehive/statehive/hive/job"
)

// Config of the server.
type Config struct {
	// Socket is the path of the unix socket; empty for DefaultSocket of the hive's name.
	Socket string `flag:"socket" usage:"unix socket of the API (empty: the user's default place)"`
}

// Listener is an open unix socket that was handed to the process. Provide one to have the server use it instead of opening
// Config.Socket; the server closes it.
type Listener struct{ net.Listener }

// Cell serves the endpoints that cells contribute.
func Cell() cell.Cell {
	return cell.Module("inspect", "the HTTP API on a unix socket",
		cell.Config(Config{}),
		cell.Provide(agentEndpoint),
		cell.Invoke(register),
	)
}

type params struct {
	cell.In

	Config     Config
	Info       hive.Info
	Inherited  Listener   `optional:"true"`
	Endpoints  []Endpoint `group:"inspect-endpoints"`
	Lifecycle  cell.Lifecycle
	Jobs       job.Group
	Shutdowner hive.Shutdowner
	Logger     *slog.Logger
}

// register has the server opened, run and closed with the hive.
func register(p params) error {
	router, err := newRouter(p.Endpoints)
	if err != nil {
		return err
	}
	s := &server{params: p, router: router}
	p.Lifecycle.Append(cell.Hook{Name: "API socket", OnStart: s.open, OnStop: s.close})
	jobs := []job.Job{job.OneShot("serve", s.serve, job.WithOnFailure(p.Shutdowner.Shutdown))}
	if p.Inherited.Listener == nil {
		jobs = append(jobs, job.OneShot("socket", s.keep))
	}
	return p.Jobs.Add(jobs...)
}

type server struct {
	params   params
	router   *router
	listener net.Listener
	own      *renewed // nil if the listener was inherited
}

func (s *server) open(context.Context) error {
	l := s.params.Inherited.Listener
	if l == nil {
		own, err := listen(s.socket())
		if err != nil {
			return fmt.Errorf("%w; --socket names another place", err)
		}
		s.own = &renewed{current: own}
		l = s.own
	}
	s.listener = &peerListener{Listener: l, allowed: allowedUIDs(), logger: s.params.Logger}
	s.params.Logger.Info("Serving the API", "socket", l.Addr())
	return nil
}

func (s *server) socket() string {
	if s.params.Config.Socket != "" {
		return s.params.Config.Socket
	}
	return DefaultSocket(s.params.Info.Name)
}

func (s *server) serve(ctx context.Context, _ health.Health) error {
	return httpserve.Serve(ctx, s.listener, s.router, WriteError, s.params.Logger)
}

func (s *server) keep(ctx context.Context, h health.Health) error {
	return s.own.keep(ctx, h, s.params.Logger)
}

// close is for a start that has failed before the job ran, which otherwise has closed the listener.
func (s *server) close(context.Context) error { return httpserve.Close(s.listener) }

// Agent is the answer of GET /v1/agent: which process it is.
type Agent struct {
	Name    string        `json:"name"`
	PID     int           `json:"pid"` // as the process itself sees it
	Started time.Time     `json:"started"`
	Uptime  time.Duration `json:"uptime"`            // nanoseconds
	Ready   bool          `json:"ready"`             // it has started, and does what it is for
	Pending []string      `json:"pending,omitempty"` // what keeps it from being ready
}

func agentEndpoint(info hive.Info, readiness *hive.Readiness) EndpointOut {
	started := time.Now()
	return NewEndpoint("GET /v1/agent", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ready, waits := readiness.Ready()
		WriteJSON(w, Agent{
			Name: info.Name, PID: os.Getpid(), Started: started, Uptime: time.Since(started), Ready: ready, Pending: waits,
		})
	}))
}
