package reconcilercell_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what comes soon, but on a slow and busy machine not at once.
const patience = 30 * time.Second

type thing struct {
	ID     string
	Note   string `json:",omitempty"`
	Status reconciler.Status
}

func (r thing) GetStatus() reconciler.Status         { return r.Status }
func (r thing) WithStatus(s reconciler.Status) thing { r.Status = s; return r }

var byKind = statedb.NewIndex("kind", func(r thing) string { return r.ID[:1] })

var byID = statedb.NewIndex("id", func(r thing) string { return r.ID })

type noop struct{}

func (noop) Init(context.Context) error { return nil }
func (noop) Update(_ context.Context, _ statedb.ReadTxn, r thing) (reconciler.Result, error) {
	if r.ID == "bad" {
		return reconciler.Result{}, reconciler.Terminal(errors.New("no such thing\nat all"))
	}
	return reconciler.Result{Changed: true}, nil
}

func (noop) Delete(_ context.Context, _ statedb.ReadTxn, r thing) error {
	if r.ID == "stays" {
		return errors.New("it is in use")
	}
	return nil
}

func (noop) Prune(context.Context, statedb.ReadTxn, iter.Seq2[thing, statedb.Revision]) (int, error) {
	return 0, nil
}

// running is a started hive with one reconciled table.
type running struct {
	db       *statedb.DB
	table    *statedb.RWTable[thing]
	registry prometheus.Gatherer
	client   *inspect.Client
	socket   string
}

// things is a module with a table, a target and the reconciler between them.
func things(more ...cell.Cell) cell.Cell {
	return cell.Module("things", "things of the test",
		dbcell.Protected(reconciler.Reconciled(statedb.Schema[thing]{
			Name: "things", Primary: byID, Secondary: []statedb.Indexer[thing]{byKind},
		})),
		cell.ProvidePrivate(func() reconciler.Target[thing] { return noop{} }),
		reconcilercell.Register[thing](),
		cell.Group(more...),
	)
}

// fed is a cell that could write a table.
func fed[Obj any]() cell.Cell { return cell.Invoke(func(*statedb.RWTable[Obj]) {}) }

type originOut struct {
	cell.Out
	Origin func(table, key string) string `group:"row-origins"`
}

func origin() originOut {
	return originOut{Origin: func(table, key string) string { return "file of " + table + " " + key }}
}

func newHive(t *testing.T, cells ...cell.Cell) *hive.Hive {
	t.Helper()
	h, err := hive.New(hive.Options{Name: "test", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, cells...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func start(t *testing.T, prefix metrics.Prefix, more ...cell.Cell) running {
	t.Helper()
	var r running
	h := newHive(t,
		inspect.Cell(), metrics.Cell(prefix), reconcilercell.Cell(), cell.Provide(origin), cell.Group(more...),
		things(cell.Invoke(r.keep)),
		cell.Invoke(func(registry prometheus.Gatherer) { r.registry = registry }),
	)
	r.begin(t, h, "--metrics-address=")
	return r
}

// keep is for a module that has the table.
func (r *running) keep(db *statedb.DB, table *statedb.RWTable[thing]) { r.db, r.table = db, table }

// begin starts a hive with an API, until the end of the test.
func (r *running) begin(t *testing.T, h *hive.Hive, args ...string) {
	t.Helper()
	r.socket = filepath.Join(t.TempDir(), "api.sock")
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	if err := h.RegisterFlags(flags); err != nil {
		t.Fatal(err)
	}
	if err := flags.Parse(append(args, "--socket", r.socket)); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	r.client = inspect.NewClient(r.socket)
}

func (r running) insert(t *testing.T, ids ...string) {
	t.Helper()
	err := r.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for _, id := range ids {
			if _, _, err := r.table.Insert(txn, thing{ID: id}); err != nil {
				return err
			}
		}
		return nil
	}, r.table)
	if err != nil {
		t.Fatal(err)
	}
}

func (r running) delete(t *testing.T, id string) {
	t.Helper()
	err := r.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := r.table.Delete(txn, thing{ID: id})
		return err
	}, r.table)
	if err != nil {
		t.Fatal(err)
	}
}

func (r running) deleteAll(t *testing.T) {
	t.Helper()
	err := r.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, err := r.table.DeleteAll(txn)
		return err
	}, r.table)
	if err != nil {
		t.Fatal(err)
	}
}

// allDone waits until every row is done.
func (r running) allDone(t *testing.T) {
	t.Helper()
	deadline := time.After(patience)
	for {
		rows, changed := r.table.AllWatch(r.db.ReadTxn())
		pending := 0
		for row := range rows {
			if row.Status.Kind() != reconciler.Done {
				pending++
			}
		}
		if pending == 0 {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%d rows are still not done", pending)
		}
	}
}

func TestIncrementalTotalRisesByTheNumberOfChanges(t *testing.T) {
	r := start(t, "")
	r.insert(t, "a", "b", "c")
	r.allDone(t)
	expected := `
		# HELP statehive_reconciler_incremental_total Operations on rows that were not done.
		# TYPE statehive_reconciler_incremental_total counter
		statehive_reconciler_incremental_total{module_id="things",reconciler="things"} 3
	`
	// What is counted is made known just after the rows have their statuses.
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if err = testutil.GatherAndCompare(r.registry, strings.NewReader(expected), "statehive_reconciler_incremental_total"); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func TestTheEndpointSumsUpEachReconciler(t *testing.T) {
	r := start(t, "")
	r.insert(t, "a", "b")
	r.allDone(t)
	var statuses []reconcilercell.Status
	if err := r.client.Get(t.Context(), "/v1/reconcilers", nil, &statuses); err != nil {
		t.Fatal(err)
	}
	if len(statuses) != 1 {
		t.Fatalf("got %d reconcilers, want 1", len(statuses))
	}
	s := statuses[0]
	if s.Name != "things" || s.Module != "things" || s.Rows != 2 || s.Done != 2 || s.LastSuccess.IsZero() {
		t.Errorf("got %+v", s)
	}
}
