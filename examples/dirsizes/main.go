// Command dirsizes watches the sizes of directories: a small hive application with settings, a command line, an API and metrics.
// Documentation/hive.md walks through it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/health/healthcell"
	"github.com/statehive/statehive/hive/hivecell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

func main() {
	h, err := hive.New(hive.Options{Name: "dirsizes"}, cells()...)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(cli.Main(context.Background(), h, "Watches the sizes of directories"))
}

// cells lists the parts of the application: first those that most applications use, then its own modules.
func cells() []cell.Cell {
	return []cell.Cell{
		inspect.Cell(), metrics.Cell("dirsizes"), healthcell.Cell(), hivecell.Cell(), dbcell.Cell(),
		scanCell(),
		quotaCell(),
	}
}

// Dir is a row of the table "dirs".
type Dir struct {
	Path  string `json:"path"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// byPath is the primary index: it identifies a row.
var byPath = statedb.NewIndex("path", func(d Dir) string { return d.Path })

// scanConfig holds settings. Dirs is set by the flag --dirs, by DIRSIZES_DIRS in the environment, or by the key dirs in the file
// that --config names.
type scanConfig struct {
	Dirs     []string      `flag:"dirs" usage:"directories to watch"`
	Interval time.Duration `flag:"scan-interval" usage:"how often to measure them"`
}

// Validate is called before anything is constructed.
func (c scanConfig) Validate() error {
	if len(c.Dirs) == 0 {
		return errors.New("--dirs: expected at least one directory")
	}
	return nil
}

// scanCell measures directories. Other modules can read its table, but not write it, and cannot see its scanner.
func scanCell() cell.Cell {
	return cell.Module("scan", "sizes of directories",
		cell.Config(scanConfig{Interval: time.Minute}),
		dbcell.Protected(statedb.Schema[Dir]{Name: "dirs", Primary: byPath}),
		cell.ProvidePrivate(newScanner),
		cell.Invoke(func(s *scanner, jobs job.Group) error {
			return jobs.Add(job.Timer("measure", s.measureAll, s.config.Interval, job.WithImmediateRun()))
		}),
	)
}

type scanner struct {
	config scanConfig
	db     *statedb.DB
	dirs   *statedb.RWTable[Dir]
}

// newScanner is a constructor: it needs its parameters and makes its result.
func newScanner(c scanConfig, db *statedb.DB, dirs *statedb.RWTable[Dir]) *scanner {
	return &scanner{config: c, db: db, dirs: dirs}
}

// measureAll is what the job runs. After an error the job's health is degraded, until a run succeeds.
func (s *scanner) measureAll(ctx context.Context, _ health.Health) error {
	var errs []error
	for _, path := range s.config.Dirs {
		row, err := measure(path)
		if err == nil {
			err = s.db.Update(ctx, func(txn *statedb.WriteTxn) error {
				_, _, err := s.dirs.Insert(txn, row)
				return err
			}, s.dirs)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func measure(path string) (Dir, error) {
	row := Dir{Path: path}
	err := filepath.WalkDir(path, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			row.Files, row.Bytes = row.Files+1, row.Bytes+info.Size()
		}
		return err
	})
	return row, err
}

type quotaConfig struct {
	Quota int64 `flag:"quota" usage:"bytes that a directory may hold"`
}

// quotaCell reads the table of the other module and reports in its health whether a directory is too large.
func quotaCell() cell.Cell {
	return cell.Module("quota", "directories that are too large",
		cell.Config(quotaConfig{Quota: 1 << 30}),
		cell.Decorate(func(l *slog.Logger, c quotaConfig) *slog.Logger { return l.With("quota", c.Quota) }),
		cell.Invoke(judge),
	)
}

func judge(c quotaConfig, dirs *statedb.Table[Dir], jobs job.Group, h health.Health, logger *slog.Logger) error {
	return jobs.Add(job.TableObserver("judge", dirs, statedb.FollowOptions{},
		func(_ context.Context, _ health.Health, b statedb.Batch[Dir]) error {
			for d := range dirs.All(b.Txn) {
				if d.Bytes > c.Quota {
					logger.Warn("Directory is too large", "path", d.Path, "bytes", d.Bytes)
					h.Degraded(fmt.Sprintf("%s has %d bytes", d.Path, d.Bytes), nil)
					return nil
				}
			}
			h.OK("all directories are within the quota")
			return nil
		}))
}
