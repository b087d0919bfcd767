package agent

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/hivetest"
	"github.com/statehive/statehive/statedb"
)

func TestCellsFitTogether(t *testing.T) { hivetest.Validate(t, cells(&surroundings{})...) }

// A table that is empty because nothing feeds it is not a wish.
func TestWithoutTheSourceOfDocumentsTheAgentDoesNotStart(t *testing.T) {
	around := &surroundings{}
	all := slices.Concat(foundation(around), kinds(around), []cell.Cell{cell.Invoke(func(l cell.Lifecycle) {
		t.Error("the agent would start")
	})})
	settings := map[string]string{"STATEHIVE_STATE_DIR": t.TempDir(), "STATEHIVE_SOCKET": t.TempDir() + "/socket", "STATEHIVE_METRICS_ADDRESS": ""}
	h, err := hive.New(hive.Options{
		Name: name, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		LookupEnv: func(name string) (string, bool) { value, ok := settings[name]; return value, ok },
	}, all...)
	if err != nil {
		t.Fatal(err)
	}
	const want = `kind "sysctl": nothing reads its documents into table "sysctls": the cell filecell.Cell is missing`
	if err := h.Start(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("start: %v, want %s", err, want)
	}
	if _, err := os.Stat(settings["STATEHIVE_SOCKET"]); err == nil {
		t.Error("the API is served")
	}
}

// Nobody writes rows through the socket: the desired state comes from documents.
func TestNoTableOfTheAgentIsWrittenByName(t *testing.T) {
	settings := map[string]string{"STATEHIVE_STATE_DIR": t.TempDir(), "STATEHIVE_CONFIG_DIR": t.TempDir(), "STATEHIVE_SOCKET": t.TempDir() + "/socket", "STATEHIVE_METRICS_ADDRESS": ""}
	enough := errors.New("all tables are there")
	h, err := hive.New(hive.Options{
		Name: name, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		LookupEnv: func(name string) (string, bool) { value, ok := settings[name]; return value, ok },
	}, slices.Concat(cells(&surroundings{}), []cell.Cell{cell.Invoke(func(db *statedb.DB) error {
		txn, n := db.ReadTxn(), 0
		for _, table := range db.Tables(txn) {
			n++
			if err := table.Writable(txn); !errors.Is(err, statedb.ErrNotWritable) {
				t.Errorf("table %s: %v", table.Name(), err)
			}
		}
		if n < 15 {
			t.Errorf("there are %d tables", n)
		}
		return enough
	})})...)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); !errors.Is(err, enough) {
		t.Errorf("start: %v", err)
	}
}
