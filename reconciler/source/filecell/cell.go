package filecell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/statedb"
)

// Config configures the source of documents.
type Config struct {
	// ConfigDir is the directory. It must be set, and exist at the start.
	ConfigDir string `flag:"config-dir" usage:"directory of the documents with the desired state (*.yaml, *.yml)"`
	// AllowWritable allows documents that users other than root and this user can write.
	AllowWritable bool `flag:"allow-writable-config" usage:"read documents that other users may have written: they can do what the agent can"`
}

// Validate is called by cell.Config.
func (c Config) Validate() error {
	if c.ConfigDir == "" {
		return errors.New("no directory of documents: set --config-dir")
	}
	return nil
}

// Cell reads documents into the tables of the declared kinds.
func Cell() cell.Cell {
	return cell.Module("documents", "desired state from files",
		cell.Config(Config{}),
		cell.Provide(build, (*file.Source).Documents, origin, endpoint, approveEndpoint, approveCommand, validateCommand, schemaCommand, section, readyCondition),
		cell.Invoke(func(*file.Source) {}, registerMetrics),
	)
}

// originOut contributes a function that returns the origins of rows to the group of such functions.
type originOut struct {
	cell.Out
	Origin func(table, key string) string `group:"row-origins"`
}

func origin(s *file.Source) originOut { return originOut{Origin: s.Origin} }

type params struct {
	cell.In

	Config Config
	DB     *statedb.DB
	Kinds  []file.Kind `group:"document-kinds"`
	Memory file.Memory `optional:"true"`
	Jobs   job.Group
	Logger *slog.Logger

	Reloads *hive.Reloads
}

func build(p params) (*file.Source, error) {
	config := file.Config{DB: p.DB, Dir: p.Config.ConfigDir, AllowWritable: p.Config.AllowWritable, Kinds: p.Kinds, Logger: p.Logger}
	m := &memory{Memory: p.Memory, changed: make(chan struct{}, 1)}
	if p.Memory != nil {
		config.Memory = m
	}
	s, err := file.New(config)
	if err != nil {
		return nil, err
	}
	p.Reloads.Add("documents", func(context.Context) error { s.Rescan(); return nil })
	run := func(ctx context.Context, h health.Health) error {
		h.OK("following " + s.Dir()) // an earlier failure has ended
		return s.Run(ctx)
	}
	report := func(ctx context.Context, h health.Health) error { return reportHealth(ctx, h, p.DB, s.Documents(), m) }
	err = p.Jobs.Add(
		job.OneShot("source", run, job.WithRetries(-1), job.WithBackoff(job.Exponential(time.Second, time.Minute))),
		job.OneShot("files", report),
	)
	return s, err
}

// memory reports to health what the embedded Memory cannot store.
type memory struct {
	file.Memory
	changed chan struct{}

	mu     sync.Mutex
	calls  int   // of SetInForce that have ended
	failed error // why the last of them failed or, after a while, that it does not return
}

// patience is how long a call of SetInForce may take before health says so.
const patience = 10 * time.Second

// SetInForce implements file.Memory.
func (m *memory) SetInForce(now file.InForce) error {
	m.mu.Lock()
	call := m.calls
	m.mu.Unlock()
	late := time.AfterFunc(patience, func() { m.end(call, call, errSilent) })
	defer late.Stop()
	err := m.Memory.SetInForce(now)
	m.end(call, call+1, err)
	return err
}

var errSilent = errors.New("the file system does not answer; new versions of documents are not in force before it does")

// end sets the outcome of a call, unless the call has ended.
func (m *memory) end(call, calls int, err error) {
	m.mu.Lock()
	if m.calls == call {
		m.calls, m.failed = calls, err
	}
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// problem returns an error if the last call of SetInForce failed.
func (m *memory) problem() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return fmt.Errorf("cannot store that documents are in force, so that an empty directory at the next start would be the desired state: %w", m.failed)
	}
	return nil
}

// reportHealth reports the state of the files to health until ctx is done.
func reportHealth(ctx context.Context, h health.Health, db *statedb.DB, table *statedb.Table[file.Document], m *memory) error {
	for {
		rows, changed := table.AllWatch(db.ReadTxn())
		var files []file.Document
		for d := range rows {
			files = append(files, d)
		}
		message, again, err := assess(files, time.Now())
		if err = errors.Join(err, m.problem()); err != nil {
			h.Degraded(strings.TrimPrefix(message, "OK, "), err)
		} else {
			h.OK(message)
		}
		var late <-chan time.Time
		if again > 0 {
			late = time.After(again)
		}
		select {
		case <-changed:
		case <-m.changed:
		case <-late:
		case <-ctx.Done():
			return nil
		}
	}
}
