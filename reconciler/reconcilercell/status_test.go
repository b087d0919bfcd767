package reconcilercell_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

var age = regexp.MustCompile(`\d+s ago`)

// status runs the command.
func (r running) status(t *testing.T) (code int, out string) {
	t.Helper()
	root := &cobra.Command{Use: "test"}
	if err := cli.Mount(root, newHive(t, reconcilercell.Cell())); err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	root.SetOut(&stdout)
	root.SetArgs([]string{"status", "--socket", r.socket})
	code = cli.Execute(t.Context(), root)
	return code, stdout.String()
}

// wantStatus waits until the command prints all of the lines below the header,
// without ages and with runs of spaces as one, and ends with the code.
func (r running) wantStatus(t *testing.T, code int, lines ...string) {
	t.Helper()
	var got int
	var out string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		got, out = r.status(t)
		var printed []string
		for line := range strings.Lines(out) {
			printed = append(printed, age.ReplaceAllString(strings.Join(strings.Fields(line), " "), "ago"))
		}
		text := strings.Join(printed[min(1, len(printed)):], "\n")
		if got == code && text == strings.Join(lines, "\n") {
			return
		}
	}
	t.Errorf("exit code %d, want %d; printed:\n%s\nwant:\n%s", got, code, out, strings.Join(lines, "\n"))
}

func (r running) update(t *testing.T, fn func(txn *statedb.WriteTxn) error) {
	t.Helper()
	if err := r.db.Update(t.Context(), fn, r.table); err != nil {
		t.Fatal(err)
	}
}

func TestStatusSaysWhatAReconcilerWaitsForAndWhatIsWrong(t *testing.T) {
	r := start(t, "")
	r.wantStatus(t, 0, "things 0 0 0 0 0 0 0 ago OK")
	var source *statedb.Source
	r.update(t, func(txn *statedb.WriteTxn) (err error) {
		source, err = r.table.RegisterSource(txn, "files")
		return err
	})
	r.insert(t, "bad")
	r.wantStatus(t, 1, "things 1 0 1 0 0 0 0 ago Degraded", "things: waiting for sources: files")
	r.update(t, func(txn *statedb.WriteTxn) error {
		if err := source.Incomplete(txn, "a.yaml is broken"); err != nil {
			return err
		}
		return source.Initialized(txn)
	})
	r.wantStatus(t, 1, "things 1 0 0 1 0 0 0 ago Degraded",
		"things: rows in error: 1: update bad: no such thing", "things: removal of orphans is held: files: a.yaml is broken")
	r.update(t, func(txn *statedb.WriteTxn) error {
		_, _, err := r.table.Delete(txn, thing{ID: "bad"})
		return err
	})
	r.wantStatus(t, 0, "things 0 0 0 0 0 0 0 ago OK", "things: removal of orphans is held: files: a.yaml is broken")
}

func TestReconcilersWorkInAHiveWithoutAPIAndMetrics(t *testing.T) {
	var r running
	h := newHive(t, reconcilercell.Cell(), things(cell.Invoke(func(db *statedb.DB, table *statedb.RWTable[thing]) {
		r.db, r.table = db, table
	})))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.insert(t, "a")
	r.allDone(t)
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

type other struct {
	ID     string
	Status reconciler.Status
}

func (r other) GetStatus() reconciler.Status         { return r.Status }
func (r other) WithStatus(s reconciler.Status) other { r.Status = s; return r }

type noopOther struct{ reconciler.Target[other] }

func TestRegisterSaysWhatIsMissing(t *testing.T) {
	schema := statedb.Schema[other]{Name: "others", Primary: statedb.NewIndex("id", func(r other) string { return r.ID })}
	for name, tt := range map[string]struct {
		cells []cell.Cell
		want  string
	}{
		"the cell": {[]cell.Cell{things()}, "missing type reconcilercell.Config"},
		"a name of its own": {
			[]cell.Cell{reconcilercell.Cell(), things(
				fed[thing](),
				dbcell.Protected(reconciler.Reconciled(schema)),
				cell.ProvidePrivate(func() reconciler.Target[other] { return noopOther{} }),
				reconcilercell.RegisterWithStatus("things", reconciler.StatusField[other]{Get: other.GetStatus, Set: other.WithStatus}),
			)},
			`reconciler "things": module "things" already has one of that name`,
		},
		"the interface": {
			[]cell.Cell{
				reconcilercell.Cell(), dbcell.Protected(reconciler.Reconciled(schema)), reconcilercell.Register[other](),
				cell.ProvidePrivate(func() noopOther { return noopOther{} }),
			},
			"its constructor has to return that type: there is a reconcilercell_test.noopOther",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := newHive(t, tt.cells...).Start(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
