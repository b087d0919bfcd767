// Package nftcell adds the kind "nft" to a hive.
package nftcell

import (
	"log/slog"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/target/kindcell"
	"github.com/statehive/statehive/reconciler/target/nft"
)

// Cell returns the module.
func Cell() cell.Cell {
	return kindcell.Cell(
		kindcell.Kind[nft.Table]{
			Name: "nft", Title: "nftables tables", KeyField: "name",
			Schema: nft.Schema(), Default: nft.Default, Normalized: nft.Table.Normalized,
		},
		cell.ProvidePrivate(
			func(l cell.Lifecycle, logger *slog.Logger) (*nft.Target, error) {
				t, err := nft.New(nft.Config{Logger: logger})
				return kindcell.Closed(l, t, err)
			},
			func(t *nft.Target) reconciler.Target[nft.Table] { return t },
			(*nft.Target).NewMirror,
			nft.Observed,
			func(seen reconciler.Observation[nft.Table]) reconcilercell.Relations[nft.Table] {
				return reconcilercell.Relations[nft.Table]{Observed: seen}
			}),
		kindcell.Observed[nft.Mirror](nft.SeenSchema()),
	)
}
