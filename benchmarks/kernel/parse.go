package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/managedfile"
	"github.com/statehive/statehive/reconciler/target/neighbor"
	"github.com/statehive/statehive/reconciler/target/nft"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/reconciler/target/rule"
	"github.com/statehive/statehive/reconciler/target/sysctl"
	"github.com/statehive/statehive/statedb"
)

// parse measures what the source of documents needs for a text, with the kinds of
// the agent: from its start until its tables are initialized, in seconds. Nobody
// reconciles the tables.
func (t *trial) parse(ctx context.Context, text string) (float64, error) {
	dir, err := os.MkdirTemp(t.dir, "parse-")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "documents.yaml"), []byte(text), 0o600)
	}
	if err != nil {
		return 0, err
	}
	db := statedb.New()
	kinds, initialized, err := kindsOf(db)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	source, err := file.New(file.Config{DB: db, Dir: dir, Kinds: kinds})
	if err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx) }()
	select {
	case <-initialized():
		took := time.Since(began).Seconds()
		cancel()
		return took, errors.Join(<-ended, complaints(db, source.Documents()))
	case err := <-ended:
		return 0, errors.Join(errors.New("the source has ended"), err)
	}
}

// complaints are about files that were not taken over: their time would be too short.
func complaints(db *statedb.DB, documents *statedb.Table[file.Document]) (err error) {
	for d := range documents.All(db.ReadTxn()) {
		if d.State != file.OK {
			err = errors.Join(err, fmt.Errorf("%+v", d))
		}
	}
	return err
}

// kindsOf makes the tables and kinds of the agent. initialized is for after the
// source was made; its channel is closed when the routes are complete.
func kindsOf(db *statedb.DB) (kinds []file.Kind, initialized func() <-chan struct{}, err error) {
	routes, routesErr := addKind(db, &kinds, "route", route.Schema(), route.Default, route.Route.Normalized)
	_, addressesErr := addKind(db, &kinds, "address", address.Schema(), address.Default, address.Address.Normalized)
	_, linksErr := addKind(db, &kinds, "link", link.Schema(), link.Default, link.Link.Normalized)
	_, sysctlsErr := addKind(db, &kinds, "sysctl", sysctl.Schema(), sysctl.Default, sysctl.Sysctl.Normalized)
	_, rulesErr := addKind(db, &kinds, "rule", rule.Schema(), rule.Default, rule.Rule.Normalized)
	_, neighborsErr := addKind(db, &kinds, "neighbor", neighbor.Schema(), neighbor.Default, neighbor.Neighbor.Normalized)
	_, tablesErr := addKind(db, &kinds, "nft", nft.Schema(), nft.Default, nft.Table.Normalized)
	_, filesErr := addKind(db, &kinds, "file", managedfile.Schema(), managedfile.Default, managedfile.File.Normalized)
	return kinds, func() <-chan struct{} {
		_, done := routes.Initialized(db.ReadTxn()) // all tables are in one transaction
		return done
	}, errors.Join(routesErr, addressesErr, linksErr, sysctlsErr, rulesErr, neighborsErr, tablesErr, filesErr)
}

func addKind[Obj reconciler.Reconcilable[Obj]](
	db *statedb.DB, kinds *[]file.Kind, name string, schema statedb.Schema[Obj], defaults func() Obj, normalized func(Obj) (Obj, error),
) (*statedb.RWTable[Obj], error) {
	table, err := statedb.NewTable(db, schema)
	if err != nil {
		return nil, err
	}
	kind, err := file.NewKind(file.KindConfig[Obj]{Name: name, Table: table, Default: defaults, Normalized: normalized})
	*kinds = append(*kinds, kind)
	return table, err
}
