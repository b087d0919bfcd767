package filecell

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/statedb"
)

// Config is where documents are.
type Config struct {
	// ConfigDir is the directory. It must be set, and exist at the start.
	ConfigDir string `flag:"config-dir" usage:"directory of the documents with the desired state (*.yaml, *.yml)"`
	// AllowWritable reads documents that others than root and this user may have written.
	AllowWritable bool `flag:"allow-writable-config" usage:"read documents that other users may have written: they can do what the agent can"`
}

// Validate implements what cell.Config calls.
func (c Config) Validate() error {
	if c.ConfigDir == "" {
		return errors.New("no directory of documents: set --config-dir")
	}
	return nil
}

// Cell reads documents into the tables of the kinds that were declared.
func Cell() cell.Cell {
	return cell.Module("documents", "desired state from files",
		cell.Config(Config{}),
		cell.Provide(build, (*file.Source).Documents, origin, endpoint, approveEndpoint, approveCommand, validateCommand, schemaCommand, section, readyCondition),
		cell.Invoke(func(*file.Source) {}, registerMetrics),
	)
}

// originOut contributes where rows are from: what explains them asks all of the group.
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
	s, err := file.New(file.Config{DB: p.DB, Dir: p.Config.ConfigDir, AllowWritable: p.Config.AllowWritable, Kinds: p.Kinds, Memory: p.Memory, Logger: p.Logger})
	if err != nil {
		return nil, err
	}
	p.Reloads.Add("documents", func(context.Context) error { s.Rescan(); return nil })
	run := func(ctx context.Context, h health.Health) error {
		h.OK("following " + s.Dir()) // an earlier failure is over
		return s.Run(ctx)
	}
	report := func(ctx context.Context, h health.Health) error { return reportHealth(ctx, h, p.DB, s.Documents()) }
	err = p.Jobs.Add(
		job.OneShot("source", run, job.WithRetries(-1), job.WithBackoff(job.Exponential(time.Second, time.Minute))),
		job.OneShot("files", report),
	)
	return s, err
}

// reportHealth keeps the health as the files are, until ctx is done.
func reportHealth(ctx context.Context, h health.Health, db *statedb.DB, table *statedb.Table[file.Document]) error {
	for {
		rows, changed := table.AllWatch(db.ReadTxn())
		var files []file.Document
		for d := range rows {
			files = append(files, d)
		}
		if message, err := assess(files); err != nil {
			h.Degraded(message, err)
		} else {
			h.OK(message)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
