package dbcell_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

// scraped is a hive with a registry and two tables.
type scraped struct {
	db       *statedb.DB
	notes    *statedb.RWTable[note]
	registry *prometheus.Registry
}

func startScraped(t *testing.T, cells ...cell.Cell) *scraped {
	t.Helper()
	s := &scraped{}
	cells = append(cells,
		dbcell.Cell(), dbcell.Open(noteSchema()), dbcell.Open(portSchema()),
		cell.Invoke(func(db *statedb.DB, notes *statedb.RWTable[note], r *prometheus.Registry) {
			s.db, s.notes, s.registry = db, notes, r
		}),
	)
	if err := construct(t, cells...); err != nil {
		t.Fatal(err)
	}
	return s
}

// quietMetrics is metrics.Cell without a server.
func quietMetrics(prefix metrics.Prefix) cell.Cell {
	return cell.Provide(
		func() metrics.Prefix { return prefix },
		prometheus.NewRegistry,
		func(r *prometheus.Registry) prometheus.Registerer { return r },
	)
}

func (s *scraped) write(t *testing.T, fn func(txn *statedb.WriteTxn) error) {
	t.Helper()
	if err := s.db.Update(t.Context(), fn, s.notes); err != nil {
		t.Fatal(err)
	}
}

func TestTablesAreMeasuredWhenScraped(t *testing.T) {
	s := startScraped(t, quietMetrics("acme"))
	cursor := s.notes.Changes(0)
	defer cursor.Close()
	for range cursor.Next(s.db.ReadTxn()) {
		t.Error("there is a row")
	}
	s.write(t, func(txn *statedb.WriteTxn) error {
		for _, name := range []string{"a", "b", "c"} {
			if _, _, err := s.notes.Insert(txn, note{Name: name}); err != nil {
				return err
			}
		}
		_, _, err := s.notes.Delete(txn, note{Name: "b"})
		return err
	})
	expected := `
# HELP acme_table_cursor_lag_revisions Changes that the slowest cursor has not seen.
# TYPE acme_table_cursor_lag_revisions gauge
acme_table_cursor_lag_revisions{table="notes"} 4
acme_table_cursor_lag_revisions{table="ports"} 0
# HELP acme_table_cursors Open cursors.
# TYPE acme_table_cursors gauge
acme_table_cursors{table="notes"} 1
acme_table_cursors{table="ports"} 0
# HELP acme_table_kept_deletes Deleted rows that are kept for cursors.
# TYPE acme_table_kept_deletes gauge
acme_table_kept_deletes{table="notes"} 1
acme_table_kept_deletes{table="ports"} 0
# HELP acme_table_kept_changes Newest changes that are kept for cursors.
# TYPE acme_table_kept_changes gauge
acme_table_kept_changes{table="notes"} 4
acme_table_kept_changes{table="ports"} 0
# HELP acme_table_revision Revision of the newest change, which is the number of changes so far.
# TYPE acme_table_revision gauge
acme_table_revision{table="notes"} 4
acme_table_revision{table="ports"} 0
# HELP acme_table_rows Rows in the table.
# TYPE acme_table_rows gauge
acme_table_rows{table="notes"} 2
acme_table_rows{table="ports"} 0
`
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(expected), "acme_table_rows", "acme_table_revision",
		"acme_table_kept_changes", "acme_table_kept_deletes", "acme_table_cursors", "acme_table_cursor_lag_revisions"); err != nil {
		t.Error(err)
	}
}

func TestTheSeriesOfADroppedTableEnd(t *testing.T) {
	s := startScraped(t, quietMetrics(""))
	before := testutil.CollectAndCount(s.registry)
	if err := s.db.Drop(t.Context(), s.notes); err != nil {
		t.Fatal(err)
	}
	if after := testutil.CollectAndCount(s.registry); after == 0 || after != before/2 {
		t.Errorf("%d series after dropping one of two tables with %d", after, before)
	}
}

func TestMetricsAreLintClean(t *testing.T) {
	s := startScraped(t, quietMetrics("acme"))
	families, err := s.registry.Gather()
	if err != nil || len(families) != 9 {
		t.Fatalf("%d metrics (%v), want 9", len(families), err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
}

func TestAHiveNeedsNoMetrics(t *testing.T) {
	if err := construct(t, dbcell.Cell(), dbcell.Open(noteSchema())); err != nil {
		t.Error(err)
	}
}
