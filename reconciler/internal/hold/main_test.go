package hold

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is a row of the tests' tables. It depends on the rows of another table with the key Of.
type row struct{ ID, Of, State string }

var byID = statedb.NewIndex("id", func(r row) string { return r.ID })

// bed is some tables and the queue of a reconciler of one of them.
type bed struct {
	t      testing.TB
	db     *statedb.DB
	tables map[string]*statedb.RWTable[row]
	queue  *workqueue.Queue
	now    time.Time
}

func newBed(t testing.TB, tables ...string) *bed {
	t.Helper()
	b := &bed{t: t, db: statedb.New(), tables: map[string]*statedb.RWTable[row]{}, queue: workqueue.New(), now: time.Unix(1000, 0)}
	for _, name := range tables {
		b.add(statedb.Schema[row]{Name: name, Primary: byID})
	}
	return b
}

func (b *bed) add(schema statedb.Schema[row]) {
	b.t.Helper()
	table, err := statedb.NewTable(b.db, schema)
	if err != nil {
		b.t.Fatal(err)
	}
	b.tables[schema.Name] = table
}

func (b *bed) owner(table string) Owner {
	return Owner{Name: table, DB: b.db, Table: b.tables[table].Untyped(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func (b *bed) put(table string, rows ...row) {
	b.t.Helper()
	b.write(table, func(txn *statedb.WriteTxn) error {
		for _, r := range rows {
			if _, _, err := b.tables[table].Insert(txn, r); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bed) delete(table string, ids ...string) {
	b.t.Helper()
	b.write(table, func(txn *statedb.WriteTxn) error {
		for _, id := range ids {
			if _, _, err := b.tables[table].Delete(txn, row{ID: id}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bed) write(table string, fn func(*statedb.WriteTxn) error) {
	b.t.Helper()
	if err := b.db.Update(b.t.Context(), fn, b.tables[table]); err != nil {
		b.t.Fatal(err)
	}
}

// entry returns a row of a table, which must be there.
func (b *bed) entry(table, id string) *store.Entry {
	b.t.Helper()
	e := b.tables[table].Untyped().Find(b.db.ReadTxn(), byID.Query(id).Untyped())
	if e == nil {
		b.t.Fatalf("table %s has no row %s", table, id)
	}
	return e
}

// task returns an operation on a row that is in the table.
func (b *bed) task(kind pool.Kind, table, id string) *pool.Task {
	b.t.Helper()
	e := b.entry(table, id)
	it := b.queue.Get(string(e.Key()))
	it.Entry, it.Deleting = e, kind == pool.Delete
	return &pool.Task{Kind: kind, Item: it, Entry: e}
}

// holds asks a policy.
func (b *bed) holds(p Policy, t *pool.Task) (Reason, bool) { return p.Holds(t, b.db.ReadTxn(), b.now) }

// want checks what a policy says of an operation; an empty text means that it may run.
func (b *bed) want(p Policy, t *pool.Task, want Reason) {
	b.t.Helper()
	got, held := b.holds(p, t)
	if held != (want.Text != "") || got != want {
		b.t.Errorf("%v of %s: %+v (held %t), want %+v", t.Kind, rowOf(t.Entry).ID, got, held, want)
	}
}

func rowOf(e *store.Entry) row { return *(*row)(e.Row()) }

// statusOf is done, pending or error, as the row says.
func statusOf(e *store.Entry) status.Status {
	switch rowOf(e).State {
	case "done":
		return status.Status{}.After(nil, time.Unix(500, 0))
	case "error":
		return status.Status{}.After(io.ErrUnexpectedEOF, time.Unix(500, 0))
	default:
		return status.Status{}
	}
}
