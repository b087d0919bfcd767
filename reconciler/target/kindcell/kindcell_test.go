package kindcell_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/source/filecell"
	"github.com/statehive/statehive/reconciler/target/kindcell"
	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const deadline = 20 * time.Second

// lamp is a kind of its own.
type lamp struct {
	Name   string            `yaml:"name"`
	Room   string            `yaml:"room"`
	Note   string            `yaml:"note"`
	Status reconciler.Status `yaml:"-"`
}

func (l lamp) GetStatus() reconciler.Status        { return l.Status }
func (l lamp) WithStatus(s reconciler.Status) lamp { l.Status = s; return l }

func (l lamp) normalized() (lamp, error) {
	if l.Name == "" {
		return l, &reconciler.FieldError{Field: "name", Err: errors.New("missing")}
	}
	return l, nil
}

// operations is a target that sends what it is asked for.
type operations struct {
	reconciler.NoInit
	log chan<- string
}

func (o operations) Update(_ context.Context, _ statedb.ReadTxn, l lamp) (reconciler.Result, error) {
	o.log <- "update " + l.Name + l.Note
	return reconciler.Result{Changed: true}, nil
}

func (o operations) Delete(_ context.Context, _ statedb.ReadTxn, l lamp) error {
	o.log <- "delete " + l.Name
	return nil
}

func (operations) Prune(context.Context, statedb.ReadTxn, iter.Seq2[lamp, statedb.Revision]) (int, error) {
	return 0, nil
}

// The whole way of a kind, from its documents to the target, with a filter that changes.
func TestOnlyWhatTheFilterKeepsReachesTheTarget(t *testing.T) {
	dir, log := t.TempDir(), make(chan string, 100)
	documents := "kind: lamp\nname: desk\nroom: hall\nnote: long\n---\nkind: lamp\nname: wall\nroom: attic\n"
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(documents), 0o600); err != nil {
		t.Fatal(err)
	}
	var source *file.Source
	settings := map[string]string{"APP_SOCKET": filepath.Join(t.TempDir(), "s"), "APP_CONFIG_DIR": dir}
	h, err := hive.New(
		hive.Options{
			Name: "app", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			LookupEnv: func(name string) (string, bool) { value, ok := settings[name]; return value, ok },
		},
		inspect.Cell(), filecell.Cell(), reconcilercell.Cell(),
		kindcell.Cell(
			kindcell.Kind[lamp]{
				Name: "lamp", Title: "lamps", KeyField: "name",
				Schema: reconciler.Reconciled(statedb.Schema[lamp]{
					Name: "lamps", Primary: statedb.NewIndex("name", func(l lamp) string { return l.Name }),
				}),
				Default: func() lamp { return lamp{} }, Normalized: lamp.normalized,
				Filter:    func(l lamp) bool { return l.Room == "hall" },
				Transform: func(l lamp) (lamp, error) { l.Note = ""; return l, nil },
			},
			cell.ProvidePrivate(func() reconciler.Target[lamp] { return operations{log: log} }),
		),
		cell.Invoke(func(s *file.Source) { source = s }),
	)
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	next(t, log, "update desk")
	if err := file.SetFilter[lamp](source, "lamp", nil); err != nil {
		t.Fatal(err)
	}
	next(t, log, "update wall")
	if err := file.SetFilter(source, "lamp", func(l lamp) bool { return l.Room == "attic" }); err != nil {
		t.Fatal(err)
	}
	next(t, log, "delete desk")
}

// next checks the next operation.
func next(t *testing.T, log <-chan string, want string) {
	t.Helper()
	select {
	case got := <-log:
		if got != want {
			t.Fatalf("the operation is %q, want %q", got, want)
		}
	case <-time.After(deadline):
		t.Fatalf("no operation, want %q", want)
	}
}
