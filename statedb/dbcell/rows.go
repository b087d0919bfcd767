package dbcell

import (
	"errors"
	"iter"
	"net/http"

	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

func listRows(db *statedb.DB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		txn := db.ReadTxn()
		table, rows, err := selectRows(db, txn, r)
		if err != nil {
			inspect.WriteError(w, httpStatus(err), err)
			return
		}
		writeListing(w, listing{Table: table.Name(), Revision: table.Revision(txn), Columns: table.Columns()}, rows)
	})
}

func selectRows(db *statedb.DB, txn statedb.ReadTxn, r *http.Request) (statedb.AnyTable, iter.Seq[statedb.AnyRow], error) {
	table, err := db.Table(txn, r.PathValue("name"))
	if err != nil {
		return nil, nil, err
	}
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, nil, err
	}
	rows, err := q.rows(table, txn)
	return table, rows, err
}

// rows returns the rows of a table that the query asks for.
func (q query) rows(table statedb.AnyTable, txn statedb.ReadTxn) (iter.Seq[statedb.AnyRow], error) {
	switch {
	case q.has(paramKey):
		return one(table, txn, q.get(paramKey))
	case q.has(paramStatus):
		return withStatus(table, txn, q.get(paramStatus))
	case q.has(paramIndex):
		return table.List(txn, q.get(paramIndex), q.get(paramValue))
	}
	return table.All(txn), nil
}

// one yields the row with a key, and fails if there is none.
func one(table statedb.AnyTable, txn statedb.ReadTxn, key string) (iter.Seq[statedb.AnyRow], error) {
	row, ok, err := table.Get(txn, key)
	switch {
	case err != nil:
		return nil, &keyError{err: err, exist: keysLike(table, txn, key)}
	case !ok:
		err = &keyError{err: statedb.ErrNotFound, exist: keysLike(table, txn, key)}
		return nil, &statedb.RowError{Table: table.Name(), Key: key, Err: err}
	}
	return func(yield func(statedb.AnyRow) bool) { yield(row) }, nil
}

// httpStatus is 404 for what the path and the key name, 400 for the rest.
func httpStatus(err error) int {
	if errors.Is(err, statedb.ErrUnknownTable) || errors.Is(err, statedb.ErrNotFound) {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}
