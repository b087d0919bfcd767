//go:build interfaces

package main

import "github.com/statehive/statehive/statedb"

// readOnly is for commits in which tables were interfaces.
func readOnly[Obj any](table statedb.RWTable[Obj]) statedb.Table[Obj] { return table }
