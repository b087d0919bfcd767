package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
)

// metricsAddress is free: the network namespace is ours.
const metricsAddress = "127.0.0.1:9464"

// agent is the program under test, with its files.
type agent struct {
	program string
	dir     string
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the process has ended
	api     *inspect.Client
	metrics http.Client
}

// newAgent makes the directories of an agent that is to be started.
func (t *trial) newAgent() (*agent, error) {
	a := &agent{program: t.Agent, dir: t.dir, api: inspect.NewClient(filepath.Join(t.dir, "socket"))}
	return a, os.Mkdir(a.documents(), 0o700)
}

func (a *agent) documents() string { return filepath.Join(a.dir, "documents") }
func (a *agent) log() string       { return filepath.Join(a.dir, "log") }

// start starts the process, and does not wait for it to answer.
func (a *agent) start() error {
	log, err := os.OpenFile(a.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(a.program, "agent", "--config-dir", a.documents(), "--state-dir", filepath.Join(a.dir, "state"), //nolint:noctx // ends with its trial
		"--socket", filepath.Join(a.dir, "socket"), "--metrics-address", metricsAddress)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, exited := make(chan error), make(chan struct{})
	go func() {
		// The kernel sends that signal when the thread ends that made the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed in the end
			close(exited)
		}
	}()
	a.cmd, a.exited = cmd, exited
	return errors.Join(<-started, log.Close())
}

// kill ends the process at once.
func (a *agent) kill() {
	if a.cmd != nil && a.cmd.Process != nil {
		_ = a.cmd.Process.Kill() // it may have ended
		<-a.exited
	}
}

// write puts a document into place by a rename, which it returns the time of. What
// is slow about it comes before.
func (a *agent) write(name, text string) (renamed time.Time, err error) {
	next := filepath.Join(a.dir, name)
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return renamed, err
	}
	renamed = time.Now()
	return renamed, os.Rename(next, filepath.Join(a.documents(), name))
}

// Polling is as rare as the answers take long, so that it does not distort.
const (
	shortestPoll = 5 * time.Millisecond
	longestPoll  = 100 * time.Millisecond
	pollShare    = 10 // of the time at most one part in so many
)

// poll calls try, which returns nil when what is waited for is there, and returns
// when that was.
func (a *agent) poll(ctx context.Context, try func(context.Context) error) (time.Time, error) {
	for {
		began := time.Now()
		err := try(ctx)
		if err == nil {
			return time.Now(), nil
		}
		select {
		case <-a.exited:
			return time.Time{}, fmt.Errorf("the agent has ended: %s", a.complaint())
		default:
		}
		if late := pause(ctx, min(max(pollShare*time.Since(began), shortestPoll), longestPoll)); late != nil {
			return time.Time{}, fmt.Errorf("%w: %w; the end of its log: %s", late, err, a.complaint())
		}
	}
}

// complaint is the end of the log.
func (a *agent) complaint() string {
	text, err := os.ReadFile(a.log())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-1000):]))
}

var errBusy = errors.New("the agent is not idle")

// done waits until tables have so many rows, all done, and nothing is left to do.
func (a *agent) done(ctx context.Context, rows map[string]int) (time.Time, error) {
	return a.poll(ctx, func(ctx context.Context) error {
		g, err := a.scrape(ctx)
		if err == nil && !g.idle() {
			err = errBusy
		}
		if err != nil {
			return err
		}
		statuses, err := a.statuses(ctx)
		if err != nil {
			return err
		}
		return unlike(statuses, rows)
	})
}

// unlike is what keeps reconcilers from having so many rows, all done.
func unlike(statuses []reconcilercell.Status, rows map[string]int) error {
	for _, s := range statuses {
		if s.Rows != rows[s.Name] || s.Done != s.Rows || s.Deleting > 0 {
			return fmt.Errorf("%s: %d of %d rows are done and %d are being deleted, expected %d: %s %s",
				s.Name, s.Done, s.Rows, s.Deleting, rows[s.Name], s.Message, s.Cause)
		}
	}
	return nil
}

func (a *agent) statuses(ctx context.Context) (all []reconcilercell.Status, err error) {
	err = a.api.Get(ctx, "/v1/reconcilers", nil, &all)
	if err == nil && len(all) == 0 {
		err = errors.New("the agent has no reconcilers")
	}
	return all, err
}

func (a *agent) scrape(ctx context.Context) (gauges, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsAddress+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.metrics.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	return parseMetrics(resp.Body)
}

// plan waits until the deletes of so many rows are held, and returns their plan.
func (a *agent) plan(ctx context.Context, name string, deletes int) (id string, err error) {
	_, err = a.poll(ctx, func(ctx context.Context) error {
		var plan reconciler.Plan
		if err := a.api.Get(ctx, "/v1/reconcilers/"+name+"/plan", nil, &plan); err != nil {
			return err
		}
		if plan.Deletes != deletes {
			return fmt.Errorf("%d deletes of %s are held, expected %d", plan.Deletes, name, deletes)
		}
		id = plan.ID
		return nil
	})
	return id, err
}

// approve lets through a plan, and returns when that was asked for.
func (a *agent) approve(ctx context.Context, name, id string) (time.Time, error) {
	asked := time.Now()
	var acted reconcilercell.Acted
	return asked, a.api.Send(ctx, http.MethodPost, "/v1/reconcilers/"+name+"/approve", url.Values{"plan": {id}}, nil, &acted)
}

// usage is what the process has used so far.
type usage struct {
	cpu      time.Duration
	resident float64 // megabytes
}

func (a *agent) usage() (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.cmd.Process.Pid))
	if err != nil {
		return usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		return usage{}, err
	}
	return parseUsage(string(stat), string(status))
}

// tick is the unit of CPU times in /proc, which is the same everywhere.
const tick = 10 * time.Millisecond

func parseUsage(stat, status string) (u usage, err error) {
	_, after, _ := strings.Cut(stat, ") ") // the name before it may contain anything
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return u, fmt.Errorf("/proc/PID/stat: cannot understand %q", stat)
	}
	var user, system, kilobytes int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return u, fmt.Errorf("/proc/PID/stat: %w", err)
	}
	i := slices.IndexFunc(strings.Split(status, "\n"), func(line string) bool { return strings.HasPrefix(line, "VmRSS:") })
	if i < 0 {
		return u, errors.New("/proc/PID/status has no VmRSS")
	}
	if _, err := fmt.Sscanf(strings.Split(status, "\n")[i], "VmRSS: %d kB", &kilobytes); err != nil {
		return u, fmt.Errorf("/proc/PID/status: %w", err)
	}
	return usage{time.Duration(user+system) * tick, float64(kilobytes) * 1024 / 1e6}, nil
}
