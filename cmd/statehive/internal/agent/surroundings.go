package agent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/cmd/statehive/internal/sandbox"
	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/hive/metrics"
)

// surroundings describe where the agent runs: on the machine itself or in a sandbox. They
// are set before the hive starts, and the cells read them when it does.
type surroundings struct {
	sandboxed bool
	prepared  sandbox.Prepared
	api       net.Listener
	metrics   net.Listener // nil when metrics are off
	own       []ownPath
	// settings returns the settings of the hive.
	settings func() ([]cell.Setting, error)
}

// Names of the listeners that the process outside opens for the sandbox.
const (
	apiListener     = "api"
	metricsListener = "metrics"
)

// stateDir returns the state directory: private and temporary in a sandbox.
func (s *surroundings) stateDir(configured string) (string, error) {
	switch {
	case s.sandboxed:
		return s.prepared.StateDir, nil
	case configured != "":
		return configured, nil
	}
	return defaultStateDir()
}

// allowSysctl restricts a sandbox to sysctls of its network namespace.
func (s *surroundings) allowSysctl(sysctl string) error {
	if !s.sandboxed {
		return nil
	}
	if reason, global := globalSysctls[sysctl]; global {
		return fmt.Errorf("%s cannot be set in the sandbox: %s", sysctl, reason)
	}
	if !strings.HasPrefix(sysctl, "net.") {
		return fmt.Errorf("%s is a setting of the whole machine: in the sandbox only net.* can be set", sysctl)
	}
	return nil
}

// globalSysctls are the sysctls below net that the kernel lets a network namespace set although
// they apply to the whole machine.
var globalSysctls = map[string]string{
	"net.netfilter.nf_hooks_lwtunnel": "the kernel sets it for all network namespaces, and cannot set it back",
}

// enter prepares the sandbox, when the process is in one.
func (s *surroundings) enter(logger *slog.Logger) error {
	inherited, inside, err := sandbox.Inside()
	if err != nil || !inside {
		return err
	}
	s.sandboxed = true
	if s.prepared, err = inherited.Setup(); err != nil {
		return err
	}
	if err := os.Mkdir(s.filesDir(), 0o755); err != nil {
		return err
	}
	if s.prepared.NetSysctls != nil {
		logger.Warn("Sysctls cannot be set in this sandbox", "error", s.prepared.NetSysctls)
	}
	if s.api, err = inherited.Listener(apiListener); err != nil {
		return err
	}
	s.metrics, err = inherited.Listener(metricsListener)
	if isNoListener(err) {
		return nil // metrics are off
	}
	return err
}

// ownPath is a path that the agent itself reads or writes.
type ownPath struct{ what, path string }

// ownPaths returns the paths in the settings that name files or directories of the agent.
func ownPaths(all []cell.Setting) (own []ownPath) {
	for _, s := range all {
		switch s.Name {
		case "config-dir":
			own = append(own, ownPath{"in the directory of documents", s.Value})
		case "config":
			own = append(own, ownPath{"the settings file", s.Value})
		case stateDirSetting:
			dir := s.Value
			if dir == "" {
				dir, _ = defaultStateDir() // without one the agent does not start
			}
			own = append(own, ownPath{"in the state directory", dir})
		case "socket":
			socket := cmp.Or(s.Value, inspect.DefaultSocket(name))
			own = append(own, ownPath{"the socket of the API", socket}, ownPath{"the lock of its socket", socket + ".lock"})
		}
	}
	return own
}

// options are the agent's own settings.
type options struct {
	Sandbox bool `flag:"sandbox" usage:"run in user, network and mount namespaces of its own: nothing outside changes"`
}

// outside has the settings that the process outside of a sandbox needs. It starts no hive.
type outside struct {
	sandbox         bool
	socket, address string
	own             []ownPath
}

func readOutside(h *hive.Hive) (outside, error) {
	all, err := h.Settings()
	if err != nil {
		return outside{}, err
	}
	o := outside{own: ownPaths(all)}
	for _, s := range all {
		switch s.Name {
		case "sandbox":
			o.sandbox = s.Value == "true"
		case "socket":
			o.socket = s.Value
		case "metrics-address":
			o.address = s.Value
		}
	}
	return o, nil
}

// launch opens the listeners here, outside, and runs the agent again in a
// sandbox. An exit code other than 0 is a [cli.ExitError].
func launch(cmd *cobra.Command, args []string, o outside, logger *slog.Logger) (err error) {
	listeners, err := openListeners(cmd.Context(), o.socket, o.address)
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // the agent inside has used and closed it
		}
	}()
	if err != nil {
		return err
	}
	code, err := sandbox.Run(cmd.Context(), sandbox.Config{
		Args: args, Listeners: listeners, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Logger: logger,
	})
	if err == nil && code != 0 {
		return &cli.ExitError{Code: code}
	}
	return err
}

func openListeners(ctx context.Context, socket, address string) (map[string]net.Listener, error) {
	if socket == "" {
		socket = inspect.DefaultSocket(name)
	}
	listeners := map[string]net.Listener{}
	api, err := inspect.Listen(socket)
	if err != nil {
		return nil, fmt.Errorf("%w; --socket names another place", err)
	}
	listeners[apiListener] = api
	if address == "" {
		return listeners, nil
	}
	listeners[metricsListener], err = metrics.Listen(ctx, address)
	if err != nil {
		delete(listeners, metricsListener)
	}
	return listeners, err
}

// listenersCell passes the inherited listeners to the servers.
func listenersCell(s *surroundings) cell.Cell {
	return cell.Group(
		cell.Provide(func() inspect.Listener { return inspect.Listener{Listener: s.api} }),
		cell.Provide(func() metrics.Listener { return metrics.Listener{Listener: s.metrics} }),
	)
}

// hint prints what to type in a second terminal.
func (s *surroundings) hint(w io.Writer, program string) error {
	_, err := fmt.Fprintf(w, `
The agent runs in a sandbox: nothing outside changes. In a second terminal:

  %[1]s status                 how every reconciler stands
  %[1]s get routes             the rows of a table, see also: %[1]s tables
  %[1]s health                 the health of every part
  nsenter --preserve-credentials -U -n -t $(%[1]s pid) ip route
                                       look around inside

Change a document in the directory and look again. Files can be written below
%[2]s only. Ctrl-C stops the agent.

`, program, s.filesDir())
	return err
}
