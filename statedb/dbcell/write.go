package dbcell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

const (
	// maxBody bounds the rows of one request.
	maxBody = 1 << 20
	// lockTimeout is how long a request waits for a table that others have locked.
	lockTimeout = 10 * time.Second
)

// written is the answer to PUT and DELETE /v1/tables/{name}/rows.
type written struct {
	Table string       `json:"table"`
	Rows  []writtenRow `json:"rows"`
}

// writtenRow describes a row after a write, or before it was deleted.
type writtenRow struct {
	Key      string           `json:"key"`
	Revision statedb.Revision `json:"revision"`
}

func putRows(db *statedb.DB) http.Handler {
	return changeRows(db, []string{paramRevision}, newPut)
}

func deleteRow(db *statedb.DB) http.Handler {
	return changeRows(db, []string{paramKey, paramRevision}, newDeletion)
}

// change writes a table, and returns the rows that it has written or deleted.
type change func(txn *statedb.WriteTxn, table statedb.AnyTable) ([]writtenRow, error)

// changeRows answers requests for changes of one table, each in one transaction.
func changeRows(db *statedb.DB, params []string, parse func(query, io.Reader) (change, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		answer, err := applyChange(db, params, parse, r)
		if err != nil {
			inspect.WriteError(w, httpStatus(err), err)
			return
		}
		inspect.WriteJSON(w, answer)
	})
}

func applyChange(
	db *statedb.DB, params []string, parse func(query, io.Reader) (change, error), r *http.Request,
) (written, error) {
	txn := db.ReadTxn()
	table, err := db.Table(txn, r.PathValue("name"))
	if err != nil {
		return written{}, err
	}
	if err := table.Writable(txn); err != nil {
		return written{}, err
	}
	q, err := parseQuery(r.URL.RawQuery, params)
	if err != nil {
		return written{}, err
	}
	apply, err := parse(q, r.Body)
	if err != nil {
		return written{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), lockTimeout)
	defer cancel()
	answer := written{Table: table.Name()}
	err = db.Update(ctx, func(txn *statedb.WriteTxn) (err error) {
		answer.Rows, err = apply(txn, table)
		return err
	}, table.Meta())
	return answer, err
}

func newDeletion(q query, _ io.Reader) (change, error) {
	if !q.has(paramKey) {
		return nil, fmt.Errorf("expected the parameter %q: the key of the row to delete", paramKey)
	}
	revision, given, err := q.revision()
	if err != nil {
		return nil, err
	}
	key := q.get(paramKey)
	return func(txn *statedb.WriteTxn, table statedb.AnyTable) ([]writtenRow, error) {
		if _, err := one(table, txn, key); err != nil { // the error names similar keys
			return nil, err
		}
		if err := isPast(revision, table, txn); err != nil {
			return nil, err
		}
		var old statedb.AnyRow
		var err error
		if given {
			old, err = table.CompareAndDelete(txn, revision, key)
		} else {
			old, _, err = table.Delete(txn, key)
		}
		return []writtenRow{{old.Key, old.Revision}}, err
	}, nil
}

// isPast refuses a revision that the table has not reached yet: every row would be older than it.
func isPast(revision statedb.Revision, table statedb.AnyTable, txn statedb.ReadTxn) error {
	if now := table.Revision(txn); revision > now {
		return fmt.Errorf("parameter %q is %d, but the table is at revision %d", paramRevision, revision, now)
	}
	return nil
}

func newPut(q query, body io.Reader) (change, error) {
	revision, given, err := q.revision()
	if err != nil {
		return nil, err
	}
	rows, err := readRows(body)
	switch {
	case err != nil:
		return nil, err
	case given && len(rows) != 1:
		return nil, fmt.Errorf("the parameter %q can be used with one row only, got %d", paramRevision, len(rows))
	case given:
		return func(txn *statedb.WriteTxn, table statedb.AnyTable) ([]writtenRow, error) {
			if err := isPast(revision, table, txn); err != nil {
				return nil, err
			}
			row, err := table.CompareAndSwap(txn, revision, rows[0])
			if errors.Is(err, statedb.ErrNotFound) {
				err = fmt.Errorf("%w; without the parameter %q it would be inserted", err, paramRevision)
			}
			return []writtenRow{{row.Key, row.Revision}}, err
		}, nil
	}
	return func(txn *statedb.WriteTxn, table statedb.AnyTable) ([]writtenRow, error) {
		return insertAll(txn, table, rows)
	}, nil
}

// insertAll writes rows, no two of which may have the same key.
func insertAll(txn *statedb.WriteTxn, table statedb.AnyTable, rows []json.RawMessage) ([]writtenRow, error) {
	result := make([]writtenRow, 0, len(rows))
	places := map[string]int{}
	for i, text := range rows {
		row, err := table.Insert(txn, text)
		if err != nil && len(rows) > 1 {
			err = fmt.Errorf("row %d of %d: %w", i+1, len(rows), err)
		}
		if err != nil {
			return nil, err
		}
		if before, twice := places[row.Key]; twice {
			err := fmt.Errorf("%w: row %d of %d has the key of row %d", statedb.ErrBadRow, i+1, len(rows), before+1)
			return nil, &statedb.RowError{Table: table.Name(), Key: row.Key, Err: err}
		}
		places[row.Key] = i
		result = append(result, writtenRow{row.Key, row.Revision})
	}
	return result, nil
}

// readRows reads a row, or an array of rows. Input that is not JSON is passed on to the table, whose error names the position.
func readRows(body io.Reader) ([]json.RawMessage, error) {
	text, err := io.ReadAll(body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, fmt.Errorf("rows are more than %d bytes, which is the most that one request may have: %w", tooLarge.Limit, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the rows: %w", err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) || !json.Valid(text) {
		return []json.RawMessage{text}, nil
	}
	var rows []json.RawMessage
	err = json.Unmarshal(text, &rows)
	return rows, err
}
