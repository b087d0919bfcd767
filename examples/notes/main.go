// Command notes keeps the text files of a directory in the state that a table describes. It is a
// complete example of Statehive's libraries, with its own row type, target and main function.
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

// Note is a row: the desired state of a file, and its status.
type Note struct {
	Name   string            // of the file; the primary key
	Text   string            // the desired contents of the file
	Status reconciler.Status // pending, done or error; written only by the reconciler
}

// GetStatus returns the status of a row.
func (n Note) GetStatus() reconciler.Status { return n.Status }

// WithStatus returns a copy of a row with another status. Rows are immutable.
func (n Note) WithStatus(s reconciler.Status) Note { n.Status = s; return n }

// byName is the primary index: it identifies rows, and orders the table.
var byName = statedb.NewIndex("name", func(n Note) string { return n.Name })

// dir is the target: the directory that has a file for each row.
type dir string

func (d dir) path(name string) string { return filepath.Join(string(d), name) }

// isFile reports whether name can be that of a file in the directory.
func isFile(name string) bool {
	return filepath.IsLocal(name) && filepath.Base(name) == name && name != "."
}

// Init prepares the target. No other method is called before it has succeeded.
func (d dir) Init(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return os.MkdirAll(string(d), 0o700)
}

// Update writes the file of a row. It is idempotent, and reports in Changed whether it had to
// write anything. Errors are retried unless they are terminal.
func (d dir) Update(ctx context.Context, _ statedb.ReadTxn, n Note) (reconciler.Result, error) {
	if !isFile(n.Name) {
		return reconciler.Result{}, reconciler.Terminal(fmt.Errorf("%q is not a valid file name", n.Name))
	}
	text, err := os.ReadFile(d.path(n.Name))
	if ctx.Err() != nil || err == nil && string(text) == n.Text {
		return reconciler.Result{}, ctx.Err()
	}
	return reconciler.Result{Changed: true}, os.WriteFile(d.path(n.Name), []byte(n.Text), 0o600)
}

// Delete removes the file of a deleted row. It succeeds if there is none.
func (d dir) Delete(ctx context.Context, _ statedb.ReadTxn, n Note) error {
	if ctx.Err() != nil || !isFile(n.Name) {
		return ctx.Err()
	}
	return os.RemoveAll(d.path(n.Name))
}

// Prune removes the files that no row describes, such as those of rows that were deleted while
// the program was not running. It is called in every full pass, the first of which is at start.
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

// run reconciles the directory until ctx is done.
func run(ctx context.Context, target dir, first Note) error {
	db := statedb.New()
	// Reconciled completes the schema, so that the status is kept apart from the spec.
	table, err := statedb.NewTable(db, reconciler.Reconciled(statedb.Schema[Note]{Name: "notes", Primary: byName}))
	if err != nil {
		return err
	}
	r, err := reconciler.New(reconciler.Params[Note]{DB: db, Table: table, Target: target})
	if err != nil {
		return err
	}
	// Rows can be written at any time; the reconciler follows.
	if err := db.Update(ctx, func(txn *statedb.WriteTxn) error {
		_, _, err := table.Insert(txn, first)
		return err
	}, table); err != nil {
		return err
	}
	return r.Run(ctx)
}

func main() { log.Fatal(run(context.Background(), "notes", Note{Name: "hello", Text: "Hello!\n"})) }
