// Package metrics serves Prometheus metrics from a registry of its own, never the global one.
//
// The registry is safe for concurrent use. Cells register their collectors when they are constructed, with names that begin with
// the Prefix. Collectors of the Go runtime, the process, jobs, health, and the start and stop of modules are registered already.
//
// Requests must name this machine by an address, its host name, localhost or one of Config.Hosts; others get 403. GET /metrics
// returns the metrics of all collectors that succeed. GET /healthz returns 200 as long as the process answers at all, whatever the
// health of its parts. GET /readyz returns 200 once the hive is ready (see hive.Readiness), and until then 503 and a list of what
// it waits for.
//
// If the address is in use, which any user of the machine can bring about, the hive starts all the same: the health of the module
// is degraded, and the server tries again every second.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/internal/httpserve"
	"github.com/statehive/statehive/hive/job"
)

const (
	// DefaultPrefix begins the names of metrics unless another is chosen.
	DefaultPrefix Prefix = "statehive"
	// DefaultAddress is where metrics are served unless another address is chosen.
	DefaultAddress = "127.0.0.1:9464"
)

// Prefix begins the names of all metrics of the hive: letters, digits and '_'. It is injectable.
type Prefix string

var goodPrefix = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// check refuses prefixes that client_golang accepts but that would have to be quoted in every query.
func (p Prefix) check() error {
	if !goodPrefix.MatchString(string(p)) {
		return fmt.Errorf("bad prefix of metrics %q: expected letters, digits and '_', such as %q", string(p), DefaultPrefix)
	}
	return nil
}

// Config of the server.
type Config struct {
	// Address, host:port, is where HTTP is served; empty for nowhere.
	Address string `flag:"metrics-address" usage:"host:port to serve /metrics, /healthz and /readyz on (empty: off)"`
	// Hosts are names of this machine, beside its addresses, its host name and localhost, that requests may name. "*" is any.
	Hosts []string `flag:"metrics-hosts" usage:"more names by which requests may name this machine; *: any"`
}

// Validate is called when the configuration has been read.
func (c Config) Validate() error {
	if c.Address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return fmt.Errorf("--metrics-address=%q: expected host:port, such as %s, or nothing: %w", c.Address, DefaultAddress, err)
	}
	return nil
}

// Listener is an open socket that was handed to the process. Provide one to have the server use it, whatever Config says; the
// server closes it.
type Listener struct{ net.Listener }

// Cell provides prometheus.Registerer, prometheus.Gatherer and the prefix, and serves /metrics, /healthz and /readyz. An empty prefix
// is DefaultPrefix. A collector that panics fails its registration, or becomes an error beside the metrics of the others when they
// are gathered; so does one that takes longer than 5 seconds to collect its metrics.
func Cell(prefix Prefix) cell.Cell {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return cell.Module("metrics", "metrics for Prometheus",
		cell.Config(Config{Address: DefaultAddress}),
		cell.Provide(newRegistry, func() (Prefix, error) { return prefix, prefix.check() }),
		cell.Invoke(registerParts, registerHooks, register),
	)
}

func newRegistry() (prometheus.Registerer, prometheus.Gatherer, error) {
	r := prometheus.NewRegistry()
	err := errors.Join(
		r.Register(collectors.NewGoCollector()),
		r.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
	return registerer{r}, gatherer{r}, err
}

type params struct {
	cell.In

	Config     Config
	Prefix     Prefix   // so that a bad one is found
	Inherited  Listener `optional:"true"`
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	Lifecycle  cell.Lifecycle
	Jobs       job.Group
	Shutdowner hive.Shutdowner
	Readiness  *hive.Readiness
	Logger     *slog.Logger
}

// register opens, runs and closes the server with the hive.
func register(p params) error {
	if p.Config.Address == "" && p.Inherited.Listener == nil {
		p.Logger.Debug("Metrics are not served")
		return nil
	}
	s := &server{params: p, handler: knownHosts(p.Config.Hosts, newHandler(p))}
	p.Lifecycle.Append(cell.Hook{Name: "metrics listener", OnStart: s.open, OnStop: s.close})
	return p.Jobs.Add(job.OneShot("serve", s.serve, job.WithOnFailure(p.Shutdowner.Shutdown)))
}

func newHandler(p params) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", newScrapes(promhttp.HandlerFor(p.Gatherer, promhttp.HandlerOpts{
		Registry:      p.Registerer,
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      slog.NewLogLogger(p.Logger.Handler(), slog.LevelError),
	}), p.Logger))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // the client is gone
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, waits := p.Readiness.Ready()
		if !ready {
			http.Error(w, "not ready, waiting for:\n"+strings.Join(waits, "\n"), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // the same
	})
	return mux
}

type server struct {
	params   params
	handler  http.Handler
	listener net.Listener
	taken    error // why there is no listener yet
}

func (s *server) open(ctx context.Context) error {
	s.listener = s.params.Inherited.Listener
	if s.listener == nil {
		l, err := Listen(ctx, s.params.Config.Address)
		if errors.Is(err, syscall.EADDRINUSE) {
			s.taken = err // any user of the machine can take it: the job waits until it is free
			return nil
		}
		if err != nil {
			return err
		}
		s.listener = l
	}
	s.params.Logger.Info("Serving metrics", "address", s.listener.Addr())
	return nil
}

// retryInterval is how often it is tried to listen on an address that was taken.
const retryInterval = time.Second

// wait listens as soon as the address is free. It returns nil if ctx ends before that.
func (s *server) wait(ctx context.Context, h health.Health) net.Listener {
	s.params.Logger.Error("Somebody else has the metrics address: nothing is served there until it is free", "error", s.taken)
	h.Degraded("somebody else has the metrics address", s.taken)
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		l, err := Listen(ctx, s.params.Config.Address)
		if err == nil {
			s.params.Logger.Info("Serving metrics", "address", l.Addr())
			h.OK("serving at " + l.Addr().String())
			return l
		}
	}
}

// Listen opens the socket that Config.Address names, for a process that hands it to another one (see Listener). Errors name
// the address and the flag.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // the kernel would keep what clients do not read for a minute, whatever is done
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot serve metrics on %s: %w; choose another address with --metrics-address, or none with "+
			"--metrics-address=", address, cause(err))
	}
	return l, nil
}

// cause returns the error without the address, which the message names already.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func (s *server) serve(ctx context.Context, h health.Health) error {
	l := s.listener
	if l == nil {
		if l = s.wait(ctx, h); l == nil {
			return nil
		}
	}
	fail := func(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }
	return httpserve.Serve(ctx, l, s.handler, fail, s.params.Logger)
}

// close closes the listener if the start fails before the job, which otherwise closes it, has run.
func (s *server) close(context.Context) error { return httpserve.Close(s.listener) }
