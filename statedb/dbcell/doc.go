// Package dbcell joins the database to a hive: [Protected] and [Open] put tables into the graph, [Cell] lets people read them.
//
// The API has two endpoints, both of which answer from one snapshot:
//
//	GET /v1/tables          every table: its rows, revision, indexes and sources
//	GET /v1/tables/{name}   the rows of one, as JSON that is written while the table is read
//
// The second takes one of key=TEXT, index=NAME with value=TEXT, and status=pending|done|error. Rows come in the order of the primary
// index. The commands `tables` and `get` print what the endpoints answer.
//
// # Rows that have a status
//
// The status of a row is the text in its column "Status" up to the first colon, as a field of that name with a String method gives
// it. A table may have an index named "status" that finds the rows in error: under the key "error" it must then have all of them.
//
// # Metrics
//
// Where hive/metrics is part of the hive, each table has, with the label "table": rows, revision, what is kept for cursors, the number of
// cursors and the lag of the slowest, and for how long transactions waited for the table's lock and held it. They are measured when
// they are asked for; the series of a dropped table end with it.
//
// # Errors
//
// An unknown table and a row that does not exist are answered with 404, all else that is wrong with a request with 400. The messages
// name what exists. A row that cannot be encoded is listed with its key, cells and the error, in place of the object.
//
// Cells are immutable; endpoints are safe for concurrent use and hold no locks while they write.
package dbcell
