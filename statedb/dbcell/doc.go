// Package dbcell joins the database to a hive: [Protected] and [Open] put tables into the graph, and [Cell] lets people read the
// tables, and write the tables that are declared to be writable.
//
// The API has these endpoints, each of which uses one snapshot:
//
//	GET /v1/tables                 every table: its rows, revision, indexes, sources, and whether it can be written
//	GET /v1/tables/{name}          the rows of a table, as JSON that is streamed while the table is read
//	PUT /v1/tables/{name}/rows     writes the row, or the array of rows, in the body
//	DELETE /v1/tables/{name}/rows  deletes the row with key=TEXT
//
// The commands `tables`, `get`, `put` and `delete` print the responses.
//
// With memory, GET /v1/tables estimates the memory of each table, which reads every row. GET /v1/tables/{name} takes one of key=TEXT,
// value=TEXT, prefix=TEXT, from=TEXT (with to=TEXT, which is not included) and status=pending|done|error. The keys of value, prefix
// and from are keys of index=NAME, by default the primary index, which also defines the order of the rows. With reverse the last row
// comes first, and limit=N limits the number of rows.
//
// With watch, the response does not end: each of its lines is a JSON object of the kind "head" (the table and its columns, first), "upsert"
// (a row that is new or has changed), "delete" (the key of a row that is no longer selected), "current" (all changes up to this revision of
// the table have been sent) or "error" (the last line: the table was dropped). Rows are compared at most ten times a second, and less
// often if that takes more than a tenth of the time. Intermediate values may be missing, but never the newest.
//
// # Writing
//
// Tables with [statedb.Schema].WritableByName can be written by everyone who may connect to the socket. The rows of a request are written
// in one transaction, all or none, like any other write: defaulters, validators and unique indexes apply, and statuses in the rows are
// ignored. With revision=N a row is written or deleted only if it has not changed after that revision. A body has at most 1 MiB.
//
// # Rows that have a status
//
// The status of a row is the text in its column "Status" up to the first colon. The column comes from a field of that name with a String
// method, or from the schema. A table may have an index named "status", which must then have all rows in error under the key "error".
//
// # Metrics
//
// If hive/metrics is part of the hive, each table has metrics with the label "table": its rows, revision, the changes kept for cursors, the
// number of cursors, the lag of the slowest one, and how long transactions waited for the table's lock and held it. Each of its sources
// has metrics, with the additional label "source", for whether it is initialized and whether it is incomplete. They are measured for
// each scrape. The series of a dropped table end.
//
// # Errors
//
// The status is 404 for an unknown table or row, 403 for a table that cannot be written by name, 409 for a row that has changed since the
// given revision or a key that another row has in a unique index, 413 for a body that is too large, 503 if others hold the table's lock for
// too long, and 400 for any other problem of a request. The messages name what exists. A row that cannot be encoded is listed with its
// key, cells and the error instead of the object.
//
// Cells are immutable; endpoints are safe for concurrent use and hold no locks while they write.
package dbcell
