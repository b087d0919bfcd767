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
	tablePath  = tablesPath + "/{name}"
	rowsPath   = tablePath + "/rows"
)

// Cell contributes the endpoints and the commands that read and write the tables of the hive, and their metrics if it has a registry.
// A hive with a *derive.Derivation that nothing depends on, so that nothing can run it, does not start.
func Cell() cell.Cell {
	return cell.Module("statedb", "commands and API of tables",
		cell.Provide(tablesEndpoint, tableEndpoint, putEndpoint, deleteEndpoint),
		cell.Provide(tablesCommand, getCommand, putCommand, deleteCommand),
		cell.Invoke(registerMetrics, checkDerived),
	)
}

func tablesEndpoint(db *statedb.DB) inspect.EndpointOut {
	return inspect.NewEndpoint("GET "+tablesPath, listTables(db), paramMemory)
}

func tableEndpoint(db *statedb.DB) inspect.EndpointOut {
	out := inspect.NewEndpoint("GET "+tablePath, listRows(db), rowParams()...)
	out.Endpoint.Stream = isWatch
	return out
}

func putEndpoint(db *statedb.DB) inspect.EndpointOut {
	return inspect.NewEndpoint("PUT "+rowsPath, putRows(db), paramRevision)
}

func deleteEndpoint(db *statedb.DB) inspect.EndpointOut {
	return inspect.NewEndpoint("DELETE "+rowsPath, deleteRow(db), paramKey, paramRevision)
}

func tablesCommand() cli.CommandOut { return cli.NewCommand(newTablesCommand) }

func getCommand() cli.CommandOut { return cli.NewCommand(newGetCommand) }

func putCommand() cli.CommandOut { return cli.NewCommand(newPutCommand) }

func deleteCommand() cli.CommandOut { return cli.NewCommand(newDeleteCommand) }
