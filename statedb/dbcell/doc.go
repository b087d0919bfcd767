// Package dbcell joins the database to a hive: [Protected] and [Open] put tables into the graph, [Cell] lets people read
// them, and write those that are declared so.
//
// The API has these endpoints, each of which answers from one snapshot:
//
//	GET /v1/tables                 every table: its rows, revision, indexes, sources, and whether it can be written
//	GET /v1/tables/{name}          the rows of one, as JSON that is written while the table is read
//	PUT /v1/tables/{name}/rows     writes the row, or the array of rows, that the body is
//	DELETE /v1/tables/{name}/rows  deletes the row with key=TEXT
//
// The commands `tables`, `get`, `put` and `delete` print what they answer.
//
// With memory, the first estimates the memory of each table, which reads every row. The second takes one of key=TEXT, value=TEXT,
// prefix=TEXT, from=TEXT (with to=TEXT, which is not included) and status=pending|done|error; index=NAME says whose keys value, prefix
// and from are, and in whose order rows come; it is the primary index by default. With reverse the last row comes first, and no more
// rows come than limit=N says.
//
// With watch, a listing goes on: each line of the answer is a JSON object whose kind is "head" (the table and its columns, first), "upsert"
// (a row that is new or has changed), "delete" (the key of one that is not selected any longer), "current" (all was said up to this revision of
// the table) or "error" (the last line: the table was dropped). It goes from snapshot to snapshot, at most ten times a second, less
// often while that takes more than a tenth of the time: values in between may be missing, the newest never is.
//
// # Writing
//
// Tables whose schema says [statedb.Schema].WritableByName can be written, by everyone whom the socket lets in. The rows of a request are
// written in one transaction, all or none, as any other write: defaulters, validators and unique indexes count, and what the rows say of
// status is ignored. With revision=N a row is written or deleted only if it was not changed since. A body has at most 1 MiB.
//
// # Rows that have a status
//
// The status of a row is the text in its column "Status" up to the first colon, as a field of that name with a String method gives
// it, or as the schema's own column of that name does. A table may have an index named "status" that finds the rows in error: under the key "error" it must then have all of them.
//
// # Metrics
//
// Where hive/metrics is part of the hive, each table has, with the label "table": rows, revision, what is kept for cursors, the number of
// cursors and the lag of the slowest, and for how long transactions waited for the table's lock and held it; and each of its sources, with
// the label "source", whether it is initialized and whether it is incomplete. They are measured when
// they are asked for; the series of a dropped table end with it.
//
// # Errors
//
// An unknown table and a row that does not exist are answered with 404, a table that cannot be written by name with 403, a row that was
// changed since and a key that another row has in a unique index with 409, too much with 413, a table that others hold for too long
// with 503, and all else that is wrong with a request with 400. The messages name what exists. A row that cannot be encoded is
// listed with its key, cells and the error, in place of the object.
//
// Cells are immutable; endpoints are safe for concurrent use and hold no locks while they write.
package dbcell
