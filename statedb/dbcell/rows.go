package dbcell

import (
	"iter"
	"net/http"

	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

func listRows(db *statedb.DB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watched, err := query(r.URL.Query()).flag(paramWatch)
		if err != nil {
			inspect.WriteError(w, httpStatus(err), err)
			return
		}
		if watched {
			watchRows(db, w, r)
			return
		}
		txn := db.ReadTxn()
		table, rows, err := selectRows(db, txn, r)
		if err != nil {
			inspect.WriteError(w, httpStatus(err), err)
			return
		}
		writeListing(w, listing{Table: table.Name(), Revision: table.Revision(txn), Columns: table.Columns()}, rows)
	})
}

// isWatch reports whether a listing is to be watched.
func isWatch(r *http.Request) bool {
	watched, err := query(r.URL.Query()).flag(paramWatch)
	return watched && err == nil
}

func selectRows(db *statedb.DB, txn statedb.ReadTxn, r *http.Request) (statedb.AnyTable, iter.Seq[statedb.AnyRow], error) {
	table, err := db.Table(txn, r.PathValue("name"))
	if err != nil {
		return nil, nil, err
	}
	q, err := parseQuery(r.URL.RawQuery, rowParams())
	if err == nil {
		err = q.checkSelection()
	}
	if err != nil {
		return nil, nil, err
	}
	rows, err := q.rows(table, txn)
	return table, rows, err
}

// rows returns the rows of a table that the query selects.
func (q query) rows(table statedb.AnyTable, txn statedb.ReadTxn) (iter.Seq[statedb.AnyRow], error) {
	reverse, err := q.flag(paramReverse)
	if err != nil {
		return nil, err
	}
	limit, limited, err := q.limit()
	if err != nil {
		return nil, err
	}
	var opts []statedb.ReadOption
	if reverse {
		opts = append(opts, statedb.WithReverse())
	}
	rows, err := q.selected(table, txn, opts)
	if err == nil && limited {
		rows = first(limit, rows) // the limit applies after the selection by status
	}
	return rows, err
}

func (q query) selected(table statedb.AnyTable, txn statedb.ReadTxn, opts []statedb.ReadOption) (iter.Seq[statedb.AnyRow], error) {
	index := table.Indexes()[0]
	if q.has(paramIndex) {
		index = q.get(paramIndex)
	}
	switch {
	case q.has(paramKey):
		return one(table, txn, q.get(paramKey))
	case q.has(paramStatus):
		return withStatus(table, txn, q.get(paramStatus), opts)
	case q.has(paramValue):
		return table.List(txn, index, q.get(paramValue), opts...)
	case q.has(paramPrefix):
		return table.Prefix(txn, index, q.get(paramPrefix), opts...)
	case q.has(paramTo):
		return table.Range(txn, index, q.get(paramFrom), q.get(paramTo), opts...)
	case q.has(paramFrom):
		return table.LowerBound(txn, index, q.get(paramFrom), opts...)
	}
	return table.All(txn, opts...), nil
}

func first(n int, rows iter.Seq[statedb.AnyRow]) iter.Seq[statedb.AnyRow] {
	return func(yield func(statedb.AnyRow) bool) {
		if n == 0 {
			return
		}
		left := n
		for row := range rows {
			left--
			if !yield(row) || left == 0 {
				return
			}
		}
	}
}

// one yields the row with a key, and fails if there is none.
func one(table statedb.AnyTable, txn statedb.ReadTxn, key string) (iter.Seq[statedb.AnyRow], error) {
	row, ok, err := table.Get(txn, key)
	switch {
	case err != nil:
		return nil, &keyError{err: err, exist: keysLike(table, txn, key)}
	case !ok:
		return nil, absent(table, txn, key)
	}
	return func(yield func(statedb.AnyRow) bool) { yield(row) }, nil
}

// absent returns the error for a key that no row has.
func absent(table statedb.AnyTable, txn statedb.ReadTxn, key string) error {
	err := &keyError{err: statedb.ErrNotFound, exist: keysLike(table, txn, key)}
	return &statedb.RowError{Table: table.Name(), Key: key, Err: err}
}
