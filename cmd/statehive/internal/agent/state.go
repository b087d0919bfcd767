package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler/target/dryrun/dryruncell"
	"github.com/statehive/statehive/reconciler/target/ownership"
)

type stateConfig struct {
	StateDir string `flag:"state-dir" usage:"directory of records of what the agent has made (empty: the user's default place)"`
}

// stateDirSetting is the name of StateDir's setting.
const stateDirSetting = "state-dir"

// stateCell provides the records of what the agent has made.
func stateCell(s *surroundings) cell.Cell {
	return cell.Module("state", "records of what the agent has made",
		cell.Config(stateConfig{}),
		cell.Provide(func(c stateConfig, mode *dryruncell.Mode, l cell.Lifecycle, logger *slog.Logger) (*ownership.Store, error) {
			dir, err := s.stateDir(c.StateDir)
			switch {
			case err != nil:
				return nil, err
			case mode.ReadOnly():
				all, _ := s.settings() // errors in the settings used here have been reported already
				s.own = ownPaths(all)
				return readState(dir, logger)
			}
			return openState(dir, l, logger)
		}),
		cell.Provide(newMemory, newHeldDeletes),
		cell.ProvidePrivate(newStartedRecords),
		cell.Invoke(watchRecords),
	)
}

// recordsInterval is the interval at which the state directory is marked if records have changed, and records that were set aside are looked for.
const recordsInterval = time.Minute

// watchRecords keeps the mark of the state directory, and reports to health whether all records are in use.
func watchRecords(store *ownership.Store, started *startedRecords, mode *dryruncell.Mode, jobs job.Group, h health.Health) error {
	if mode.ReadOnly() {
		return nil
	}
	return jobs.Add(job.Timer("watch the state directory", func(context.Context, health.Health) error {
		reportRecords(store.SetAside(), started.mark(store), h)
		return nil
	}, recordsInterval, job.WithImmediateRun()))
}

func reportRecords(aside []string, notMarked error, h health.Health) {
	switch {
	case len(aside) == 0 && notMarked == nil:
		h.OK("all records are in use")
		return
	case len(aside) == 0:
		h.Degraded("the state directory cannot be marked: if a backup of it is restored, that may not be noticed", notMarked)
		return
	}
	which := aside[0]
	if others := len(aside) - 1; others > 0 {
		which = fmt.Sprintf("%s and %d more", which, others)
	}
	h.Degraded("records of what the agent has made could not be used, so that it does not know what to remove or restore; the log says why. "+
		"Stop the agent, and for each: restore it from a backup, or mend its owner and mode and cut off what begins with .corrupt from its name, or remove it", errors.Join(errors.New(which), notMarked))
}

// readState opens the records for reading, even while an agent uses them.
func readState(dir string, logger *slog.Logger) (*ownership.Store, error) {
	store, err := ownership.Open(ownership.Config{Dir: dir, Logger: logger, ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("state directory (--%s): %w", stateDirSetting, err)
	}
	return store, nil
}

func openState(dir string, l cell.Lifecycle, logger *slog.Logger) (*ownership.Store, error) {
	store, err := ownership.Open(ownership.Config{Dir: dir, Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("state directory (--state-dir): %w", err)
	}
	lock, err := lockDir(dir, logger)
	if err != nil {
		return nil, err
	}
	l.Append(cell.Hook{Name: "state directory", OnStop: func(context.Context) error { return lock.Close() }})
	logger.Info("Keeping records of what is ours", "dir", dir)
	return store, nil
}

// defaultStateDir is /var/lib/statehive for root, and below the user's state
// directory for others.
func defaultStateDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/" + name, nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, name), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no state directory: %w; name one with --state-dir", err)
	}
	return filepath.Join(home, ".local", "state", name), nil
}
