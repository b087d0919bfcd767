// Command notes keeps a directory of text files as a table says: a complete use
// of Statehive's libraries, with a row type, a target and a main of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"os"
	"path/filepath"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Note is a row: what is wanted, and how far it is.
type Note struct {
	Name   string            // of the file; the primary key, so no two rows have the same
	Text   string            // what the file shall contain
	Status reconciler.Status // pending, done or error; the reconciler alone writes it
}

// GetStatus shows the reconciler the status of a row.
func (n Note) GetStatus() reconciler.Status { return n.Status }

// WithStatus gives it the row with another status: n is a copy, rows never change.
func (n Note) WithStatus(s reconciler.Status) Note { n.Status = s; return n }

// byName is the primary index: what identifies a row, and the order of the table.
var byName = statedb.NewIndex("name", func(n Note) string { return n.Name })

// dir is the target: it brings rows about, as files in this directory.
type dir string

func (d dir) path(name string) string { return filepath.Join(string(d), name) }

// isFile says whether a name is one of a file in the directory.
func isFile(name string) bool {
	return filepath.IsLocal(name) && filepath.Base(name) == name && name != "."
}

// Init prepares the target; nothing else is called before it has succeeded.
func (d dir) Init(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return os.MkdirAll(string(d), 0o700)
}

// Update makes the file be what the row says. It may be called at any time and
// again; Changed says that the file was not so before. An error is retried, unless
// it is a terminal one.
func (d dir) Update(ctx context.Context, _ statedb.ReadTxn, n Note) (reconciler.Result, error) {
	if !isFile(n.Name) {
		return reconciler.Result{}, reconciler.Terminal(fmt.Errorf("%q is no name of a file", n.Name))
	}
	text, err := os.ReadFile(d.path(n.Name))
	if ctx.Err() != nil || err == nil && string(text) == n.Text {
		return reconciler.Result{}, ctx.Err()
	}
	return reconciler.Result{Changed: true}, os.WriteFile(d.path(n.Name), []byte(n.Text), 0o600)
}

// Delete removes the file of a deleted row. That there is none is a success.
func (d dir) Delete(ctx context.Context, _ statedb.ReadTxn, n Note) error {
	if ctx.Err() != nil || !isFile(n.Name) {
		return ctx.Err()
	}
	return os.RemoveAll(d.path(n.Name))
}

// Prune removes what is there and in no row, as when a row was deleted while the
// program was down. It is part of every full pass, the first one at start.
func (d dir) Prune(ctx context.Context, _ statedb.ReadTxn, desired iter.Seq2[Note, statedb.Revision]) (pruned int, err error) {
	wanted := map[string]bool{}
	for n := range desired {
		wanted[n.Name] = true
	}
	files, err := os.ReadDir(string(d))
	for _, f := range files {
		if ctx.Err() == nil && !wanted[f.Name()] {
			err = errors.Join(err, os.RemoveAll(d.path(f.Name())))
			pruned++
		}
	}
	return pruned, errors.Join(err, ctx.Err())
}

// run keeps the directory as it should be until ctx ends.
func run(ctx context.Context, target dir, first Note) error {
	db := statedb.New()
	// Reconciled completes the schema: it keeps the status apart from the spec.
	table, err := statedb.NewTable(db, reconciler.Reconciled(statedb.Schema[Note]{Name: "notes", Primary: byName}))
	if err != nil {
		return err
	}
	r, err := reconciler.New(reconciler.Params[Note]{DB: db, Table: table, Target: target})
	if err != nil {
		return err
	}
	// Whoever wants something writes rows, at any time; the reconciler follows.
	if err := db.Update(ctx, func(txn *statedb.WriteTxn) error {
		_, _, err := table.Insert(txn, first)
		return err
	}, table); err != nil {
		return err
	}
	return r.Run(ctx)
}

func main() { log.Fatal(run(context.Background(), "notes", Note{Name: "hello", Text: "Hello!\n"})) }
