package settings

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// build makes a hive of the module and others that use it.
func build(t *testing.T, users ...cell.Cell) error {
	t.Helper()
	options := hive.Options{Name: "example", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	h, err := hive.New(options, append([]cell.Cell{Cell()}, users...)...)
	if err != nil {
		return err
	}
	if err := h.Start(t.Context()); err != nil {
		return err
	}
	return h.Stop(t.Context())
}

// use hands the module's API to a test.
func use(t *testing.T) (settings *Settings) {
	t.Helper()
	if err := build(t, cell.Invoke(func(s *Settings) { settings = s })); err != nil {
		t.Fatal(err)
	}
	return settings
}

func TestOthersSetAndGetThroughTheModule(t *testing.T) {
	s := use(t)
	if value, ok := s.Get("color"); ok {
		t.Errorf("color is %q before it was set", value)
	}
	if err := s.Set(t.Context(), "color", "red"); err != nil {
		t.Fatal(err)
	}
	if value, ok := s.Get("color"); !ok || value != "red" {
		t.Errorf("color is %q (%t), want red", value, ok)
	}
	if err := s.Set(t.Context(), "", "red"); err == nil {
		t.Error("a setting without a name was accepted")
	}
}

func TestWaitEndsWithTheValueOrTheContext(t *testing.T) {
	s := use(t)
	ctx, cancel := context.WithCancel(t.Context())
	red, blue := make(chan error, 1), make(chan error, 1)
	go func() { red <- s.Wait(ctx, "color", "red") }()
	go func() { blue <- s.Wait(ctx, "color", "blue") }()
	for _, value := range []string{"green", "red"} {
		if err := s.Set(ctx, "color", value); err != nil {
			t.Error(err)
		}
	}
	if err := <-red; err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-blue; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `it is "red"`) {
		t.Errorf("waiting for blue ended with %v", err)
	}
}

func TestOthersReadTheTableButCannotWriteIt(t *testing.T) {
	if err := build(t, cell.Invoke(func(*statedb.Table[Setting]) {})); err != nil {
		t.Errorf("a reader was refused: %v", err)
	}
	err := build(t, cell.Invoke(func(*statedb.RWTable[Setting]) {}))
	if err == nil || !strings.Contains(err.Error(), `private to module "settings"`) {
		t.Errorf("a writer from outside was not refused: %v", err)
	}
}

func TestPeopleWriteTheTableByName(t *testing.T) {
	put := func(db *statedb.DB, row string) error {
		table, err := db.Table(db.ReadTxn(), "settings")
		if err != nil {
			return err
		}
		return db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, err := table.Insert(txn, []byte(row))
			return err
		}, table.Meta())
	}
	err := build(t, cell.Invoke(func(db *statedb.DB, s *Settings) error {
		if err := put(db, `{"value": "red"}`); !errors.Is(err, statedb.ErrRejected) {
			t.Errorf("a setting without a name: %v", err)
		}
		if err := put(db, `{"name": "color", "value": "red"}`); err != nil {
			return err
		}
		if value, _ := s.Get("color"); value != "red" {
			t.Errorf("color is %q, want red", value)
		}
		return nil
	}))
	if err != nil {
		t.Error(err)
	}
}
