// Command symlinks is an agent with a kind of its own: see Documentation/kinds.md.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"

	"github.com/statehive/statehive/examples/symlinks/symlink"
	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/health/healthcell"
	"github.com/statehive/statehive/hive/hivecell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/source/filecell"
	"github.com/statehive/statehive/reconciler/target/dryrun/dryruncell"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/statedb/dbcell"
)

func main() {
	h, err := hive.New(hive.Options{Name: "symlinks"}, cells()...)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(cli.Main(context.Background(), h, "Keeps the symbolic links that documents declare"))
}

// cells are the agent: what every agent has, the source of the documents, and the kinds.
func cells() []cell.Cell {
	return []cell.Cell{
		inspect.Cell(), metrics.Cell("symlinks"), healthcell.Cell(), hivecell.Cell(), dbcell.Cell(),
		reconcilercell.Cell(),
		filecell.Cell(),
		dryruncell.Cell("state-dir"),
		stateCell(),
		symlink.Cell(),
	}
}

// stateConfig says where the agent records what it has made.
type stateConfig struct {
	StateDir string `flag:"state-dir" usage:"directory of records of what the agent has made"`
}

// stateCell provides the records, which plan -f only reads.
func stateCell() cell.Cell {
	return cell.Module("state", "records of what the agent has made",
		cell.Config(stateConfig{StateDir: "/var/lib/symlinks"}),
		cell.Provide(func(c stateConfig, mode *dryruncell.Mode, logger *slog.Logger) (*ownership.Store, error) {
			return ownership.Open(ownership.Config{Dir: c.StateDir, Logger: logger, ReadOnly: mode.ReadOnly()})
		}),
	)
}
