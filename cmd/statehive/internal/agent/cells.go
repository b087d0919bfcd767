package agent

import (
	"slices"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health/healthcell"
	"github.com/statehive/statehive/hive/hivecell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/source/filecell"
	"github.com/statehive/statehive/reconciler/target/address/addresscell"
	"github.com/statehive/statehive/reconciler/target/dryrun/dryruncell"
	"github.com/statehive/statehive/reconciler/target/link/linkcell"
	"github.com/statehive/statehive/reconciler/target/managedfile/managedfilecell"
	"github.com/statehive/statehive/reconciler/target/neighbor/neighborcell"
	"github.com/statehive/statehive/reconciler/target/nft/nftcell"
	"github.com/statehive/statehive/reconciler/target/route/routecell"
	"github.com/statehive/statehive/reconciler/target/rule/rulecell"
	"github.com/statehive/statehive/reconciler/target/sysctl/sysctlcell"
	"github.com/statehive/statehive/statedb/dbcell"
)

// cells returns the cells of the agent: the common ones, the source of documents, and a
// module for each kind of document.
func cells(around *surroundings) []cell.Cell {
	return slices.Concat(foundation(around), []cell.Cell{filecell.Cell()}, kinds(around))
}

func foundation(around *surroundings) []cell.Cell {
	return []cell.Cell{
		cell.Config(options{}),
		cell.Invoke(func(options) {}), // already read by readOutside
		cell.Provide(pidCommand),
		listenersCell(around),
		inspect.Cell(),
		metrics.Cell(""),
		healthcell.Cell(),
		hivecell.Cell(),
		dbcell.Cell(),
		reconcilercell.Cell(),
		stateCell(around),
		dryruncell.Cell(stateDirSetting),
		heapCell(),
	}
}

func kinds(around *surroundings) []cell.Cell {
	return []cell.Cell{
		sysctlcell.Cell(around.allowSysctl),
		linkcell.Cell(),
		addresscell.Cell(),
		routecell.Cell(),
		rulecell.Cell(),
		neighborcell.Cell(),
		managedfilecell.Cell(around.allowFile),
		nftcell.Cell(),
	}
}
