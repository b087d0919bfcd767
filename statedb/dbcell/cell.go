package dbcell

import (
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

// Paths of the API.
const (
	tablesPath = "/v1/tables"
	rowsPath   = tablesPath + "/{name}"
)

// Cell contributes the endpoints and the commands that read the tables of the hive, and their metrics if it has a registry.
func Cell() cell.Cell {
	return cell.Module("statedb", "tables for people to read",
		cell.Provide(tablesEndpoint, rowsEndpoint, tablesCommand, getCommand),
		cell.Invoke(registerMetrics),
	)
}

func tablesEndpoint(db *statedb.DB) inspect.EndpointOut {
	return inspect.NewEndpoint("GET "+tablesPath, listTables(db))
}

func rowsEndpoint(db *statedb.DB) inspect.EndpointOut {
	return inspect.NewEndpoint("GET "+rowsPath, listRows(db))
}

func tablesCommand() cli.CommandOut { return cli.NewCommand(newTablesCommand) }

func getCommand() cli.CommandOut { return cli.NewCommand(newGetCommand) }
