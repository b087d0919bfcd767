package dbcell_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type port struct {
	Device   string `json:"device"`
	Number   uint16 `json:"number"`
	PeerName string `json:"peerName"`
	Status   state  `json:"status"`
}

type state string

func (s state) String() string { return string(s) }

type portKey struct {
	device string
	number uint16
}

func (k portKey) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%s %d", k.device, k.number), nil
}

func (k *portKey) UnmarshalText(text []byte) error {
	if n, err := fmt.Sscanf(string(text), "%s %d", &k.device, &k.number); n != 2 {
		return fmt.Errorf("%q is not a device and a number: %w", text, err)
	}
	return nil
}

func portSchema() statedb.Schema[port] {
	return statedb.Schema[port]{
		Name:    "ports",
		Primary: statedb.NewIndex("key", func(p port) portKey { return portKey{p.Device, p.Number} }),
		Secondary: []statedb.Indexer[port]{
			statedb.NewIndex("peer", func(p port) string { return p.PeerName }),
			statedb.NewMultiIndex("status", func(p port) iter.Seq[string] {
				return func(yield func(string) bool) {
					if strings.HasPrefix(string(p.Status), "error") {
						yield("error")
					}
				}
			}),
		},
	}
}

type note struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// byText has the texts that only one note may have.
var byText = statedb.NewMultiIndex("only", func(n note) iter.Seq[string] {
	return func(yield func(string) bool) {
		if strings.HasPrefix(n.Text, "only") {
			yield(n.Text)
		}
	}
}).Unique()

func noteSchema() statedb.Schema[note] {
	return statedb.Schema[note]{
		Name:           "notes",
		Primary:        statedb.NewIndex("name", func(n note) string { return n.Name }),
		Secondary:      []statedb.Indexer[note]{byText},
		WritableByName: true,
		Validators: []func(statedb.ReadTxn, statedb.Proposal[note]) error{func(_ statedb.ReadTxn, p statedb.Proposal[note]) error {
			switch p.Object.Text {
			case "no":
				return errors.New("not this text")
			case "panic":
				panic("a validator that panics")
			}
			return nil
		}},
	}
}

// agent is a running hive with two tables, and a way to run commands against it.
type agent struct {
	t      *testing.T
	socket string
	db     *statedb.DB
	ports  *statedb.RWTable[port]
	notes  *statedb.RWTable[note]
}

func startAgent(t *testing.T) *agent {
	t.Helper()
	a := &agent{t: t, socket: filepath.Join(t.TempDir(), "run", "agent.sock")}
	h := a.build()
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return a
}

func (a *agent) build() *hive.Hive {
	a.t.Helper()
	return newHive(a.t, a.socket,
		inspect.Cell(),
		dbcell.Cell(),
		cell.Module("owner", "writes the tables",
			dbcell.Protected(portSchema()),
			dbcell.Open(noteSchema()),
			cell.Invoke(func(db *statedb.DB, ports *statedb.RWTable[port], notes *statedb.RWTable[note]) {
				a.db, a.ports, a.notes = db, ports, notes
			}),
		),
	)
}

func newHive(t *testing.T, socket string, cells ...cell.Cell) *hive.Hive {
	t.Helper()
	h, err := hive.New(hive.Options{
		Name:      "testhive",
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
		LookupEnv: func(name string) (string, bool) { return socket, name == "TESTHIVE_SOCKET" },
	}, cells...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (a *agent) insert(rows ...any) {
	a.t.Helper()
	a.update(func(txn *statedb.WriteTxn) (err error) {
		for _, r := range rows {
			switch r := r.(type) {
			case port:
				_, _, err = a.ports.Insert(txn, r)
			case note:
				_, _, err = a.notes.Insert(txn, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *agent) update(fn func(txn *statedb.WriteTxn) error) {
	a.t.Helper()
	if err := a.db.Update(a.t.Context(), fn, a.ports, a.notes); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) client() *inspect.Client { return inspect.NewClient(a.socket) }

// run runs a command as another process of the same binary would.
func (a *agent) run(args ...string) (stdout, stderr string, code int) {
	a.t.Helper()
	return a.runWith("", args...)
}

// runWith is run with a standard input.
func (a *agent) runWith(stdin string, args ...string) (stdout, stderr string, code int) {
	a.t.Helper()
	root := &cobra.Command{Use: "testhive"}
	if err := cli.Mount(root, (&agent{t: a.t, socket: a.socket}).build()); err != nil {
		a.t.Fatal(err)
	}
	var out, errs bytes.Buffer
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	code = cli.Execute(a.t.Context(), root)
	return out.String(), errs.String(), code
}

func fourPorts() []any {
	return []any{
		port{Device: "eth0", Number: 22, PeerName: "left", Status: "done"},
		port{Device: "eth0", Number: 80, PeerName: "right", Status: "error: no <route> to right"},
		port{Device: "eth1", Number: 22, PeerName: "left", Status: "pending"},
		port{Device: "wlan0", Number: 1, Status: "error"},
	}
}
