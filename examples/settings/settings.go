// Package settings is an example of a module that keeps its table to itself:
// other modules read the table, but write only through the module's own API.
// People write it by name, with the commands put and delete.
package settings

import (
	"context"
	"fmt"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

// Setting is a row of the table "settings".
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ByName is the primary index.
var ByName = statedb.NewIndex("name", func(s Setting) string { return s.Name })

// Cell provides Settings, and *statedb.Table[Setting] for reading. The table that
// can be written, *statedb.RWTable[Setting], stays in the module.
func Cell() cell.Cell {
	return cell.Module("settings", "named values that may be waited for",
		dbcell.Protected(statedb.Schema[Setting]{
			Name:           "settings",
			Primary:        ByName,
			Validators:     []func(statedb.ReadTxn, statedb.Proposal[Setting]) error{named},
			WritableByName: true,
		}),
		cell.Provide(newSettings),
	)
}

// named decides what is allowed, whoever writes.
func named(_ statedb.ReadTxn, p statedb.Proposal[Setting]) error {
	if p.Object.Name == "" {
		return fmt.Errorf("setting with value %q has no name", p.Object.Value)
	}
	return nil
}

// Settings are named values. They are safe for concurrent use.
type Settings struct {
	db    *statedb.DB
	table *statedb.RWTable[Setting]
}

func newSettings(db *statedb.DB, table *statedb.RWTable[Setting]) *Settings {
	return &Settings{db: db, table: table}
}

// Set gives a setting a value.
func (s *Settings) Set(ctx context.Context, name, value string) error {
	return s.db.Update(ctx, func(txn *statedb.WriteTxn) error {
		_, _, err := s.table.Insert(txn, Setting{Name: name, Value: value})
		return err
	}, s.table)
}

// Get returns the value of a setting, and whether it has one.
func (s *Settings) Get(name string) (value string, ok bool) {
	row, _, ok := s.table.Get(s.db.ReadTxn(), ByName.Query(name))
	return row.Value, ok
}

// Wait returns once a setting has a value, or with the error of ctx. A value
// that was there only for a moment may be missed.
func (s *Settings) Wait(ctx context.Context, name, value string) error {
	for {
		row, _, changed, ok := s.table.GetWatch(s.db.ReadTxn(), ByName.Query(name))
		if ok && row.Value == value {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			is, _ := s.Get(name) // it may have changed the same moment
			return fmt.Errorf("waiting for setting %s to be %q, it is %q: %w", name, value, is, ctx.Err())
		}
	}
}
