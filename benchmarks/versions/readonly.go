//go:build !interfaces

package main

import "github.com/statehive/statehive/statedb"

func readOnly[Obj any](table *statedb.RWTable[Obj]) *statedb.Table[Obj] {
	return statedb.ReadOnly(table)
}
