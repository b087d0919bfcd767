package dbcell

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

const (
	// watchInterval is the shortest time between two comparisons of the rows.
	watchInterval = 100 * time.Millisecond
	// watchShare bounds the cost of watching a large table: the time between two comparisons is at least this many times the
	// duration of the last one.
	watchShare = 10
	// watchPatience is how long a client may take to read the changes of one comparison.
	watchPatience = 30 * time.Second
)

// The kinds of lines in a watched listing.
const (
	watchHead    = "head"    // the first line: the table and its columns
	watchUpsert  = "upsert"  // a row that is new or has changed
	watchDelete  = "delete"  // a row that is no longer selected
	watchCurrent = "current" // all lines so far together are the table at a revision
	watchError   = "error"   // the last line: why the listing has ended
)

// watchLine is a line that is not a row.
type watchLine struct {
	Kind     string           `json:"kind"`
	Table    string           `json:"table,omitempty"`
	Columns  []string         `json:"columns,omitempty"`
	Key      string           `json:"key,omitempty"`
	Revision statedb.Revision `json:"revision,omitempty"` // of the table
	Error    string           `json:"error,omitempty"`
}

// watcher sends a client the changes of the rows that it has selected.
type watcher struct {
	db      *statedb.DB
	request *http.Request
	answer  *http.ResponseController
	out     *bufio.Writer
	lines   *json.Encoder
	rows    *rowEncoder
	sent    map[string]statedb.Revision // the rows that the client knows
}

// watchRows responds until the client has gone, the server stops, or the table is dropped. It compares the rows of a snapshot with the
// rows that the client knows. So every selection can be watched, and a slow client misses intermediate values but never the newest.
func watchRows(db *statedb.DB, w http.ResponseWriter, r *http.Request) {
	txn := db.ReadTxn()
	table, rows, err := selectWatched(db, txn, r)
	if err != nil {
		inspect.WriteError(w, httpStatus(err), err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(w, streamBuffer)
	watch := &watcher{
		db: db, request: r, answer: http.NewResponseController(w), out: out,
		lines: json.NewEncoder(out), rows: newRowEncoder(), sent: map[string]statedb.Revision{},
	}
	if watch.lines.Encode(watchLine{Kind: watchHead, Table: table.Name(), Columns: table.Columns()}) == nil {
		watch.run(table, txn, rows)
	}
}

// run ends when the client has gone.
func (w *watcher) run(table statedb.AnyTable, txn statedb.ReadTxn, rows iter.Seq[statedb.AnyRow]) {
	for {
		changed, began := table.Watch(txn), time.Now()
		if w.tell(table.Revision(txn), rows) != nil || !w.wait(changed, time.Since(began)) {
			return
		}
		var err error
		txn = w.db.ReadTxn()
		if table, rows, err = selectWatched(w.db, txn, w.request); err != nil {
			_ = w.end(err) // nothing follows
			return
		}
	}
}

// selectWatched is like selectRows, but allows a row that does not exist yet.
func selectWatched(db *statedb.DB, txn statedb.ReadTxn, r *http.Request) (statedb.AnyTable, iter.Seq[statedb.AnyRow], error) {
	table, rows, err := selectRows(db, txn, r)
	if table != nil && errors.Is(err, statedb.ErrNotFound) {
		return table, func(func(statedb.AnyRow) bool) {}, nil
	}
	return table, rows, err
}

// tell sends the differences between rows and the rows that the client knows. It returns errors of the connection.
func (w *watcher) tell(revision statedb.Revision, rows iter.Seq[statedb.AnyRow]) error {
	if err := w.answer.SetWriteDeadline(time.Now().Add(watchPatience)); err != nil {
		return err
	}
	known := maps.Clone(w.sent)
	for row := range rows {
		was, isKnown := known[row.Key]
		delete(known, row.Key)
		if isKnown && was == row.Revision {
			continue
		}
		w.sent[row.Key] = row.Revision
		if err := w.rows.write(w.out, watchUpsert, "", row); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		delete(w.sent, key)
		if err := w.lines.Encode(watchLine{Kind: watchDelete, Key: key}); err != nil {
			return err
		}
	}
	if err := w.lines.Encode(watchLine{Kind: watchCurrent, Revision: revision}); err != nil {
		return err
	}
	return w.flush()
}

func (w *watcher) end(err error) error {
	if err := w.lines.Encode(watchLine{Kind: watchError, Error: err.Error()}); err != nil {
		return err
	}
	return w.flush()
}

func (w *watcher) flush() error {
	return errors.Join(w.out.Flush(), w.answer.Flush())
}

// wait returns after a change, but not before the next comparison may begin. It returns false if the client has gone or the server
// stops.
func (w *watcher) wait(changed <-chan struct{}, took time.Duration) bool {
	ctx := w.request.Context()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	}
	pause, cancel := context.WithTimeout(ctx, max(watchInterval, watchShare*took))
	defer cancel()
	<-pause.Done()
	return ctx.Err() == nil
}
