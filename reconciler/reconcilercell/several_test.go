package reconcilercell_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

// host is a row that two reconcilers work on.
type host struct {
	ID       string
	Statuses reconciler.StatusSet
}

func hostSchema() statedb.Schema[host] {
	return statedb.Schema[host]{
		Name: "hosts", Primary: statedb.NewIndex("id", func(h host) string { return h.ID }),
		Amend: statedb.Amend[host]{
			Carry: func(from, to host) host { to.Statuses = from.Statuses; return to },
			Reset: func(h host) host { h.Statuses = reconciler.StatusSet{}; return h },
		},
	}
}

func statusOf(name string) reconciler.StatusField[host] {
	return reconciler.StatusField[host]{
		Get: func(h host) reconciler.Status { return h.Statuses.Get(name) },
		Set: func(h host, s reconciler.Status) host { h.Statuses = h.Statuses.With(name, s); return h },
	}
}

// half is a target of hosts, which fails if it has an error.
type half struct{ err error }

func (half) Init(context.Context) error { return nil }
func (h half) Update(context.Context, statedb.ReadTxn, host) (reconciler.Result, error) {
	return reconciler.Result{}, reconciler.Terminal(h.err)
}
func (half) Delete(context.Context, statedb.ReadTxn, host) error { return nil }
func (half) Prune(context.Context, statedb.ReadTxn, iter.Seq2[host, statedb.Revision]) (int, error) {
	return 0, nil
}

// halfOf is a module with one of the reconcilers of hosts.
func halfOf(name string, err error) cell.Cell {
	return cell.Module(name, "one half of the hosts",
		cell.ProvidePrivate(func() reconciler.Target[host] { return half{err} }),
		reconcilercell.RegisterWithStatus(name, statusOf(name)),
	)
}

func TestSeveralReconcilersShareATableInAHive(t *testing.T) {
	var r running
	var hosts *statedb.RWTable[host]
	h := newHive(t, inspect.Cell(), reconcilercell.Cell(), cell.Module("hosts", "hosts of the test",
		dbcell.Protected(hostSchema()),
		halfOf("dns", nil), halfOf("firewall", errors.New("no such chain")),
		cell.Invoke(func(db *statedb.DB, table *statedb.RWTable[host]) { r.db, hosts = db, table }),
	))
	r.begin(t, h)
	err := r.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := hosts.Insert(txn, host{ID: "a"})
		return err
	}, hosts)
	if err != nil {
		t.Fatal(err)
	}
	r.eventually(t, "explain dns a", "nothing: it is done")
	r.eventually(t, "explain firewall a", ": no such chain")
	r.fails(t, "explain hosts a", `table "hosts" has several reconcilers, expected one of: dns, firewall`)
	r.wantStatus(t, 1, "dns 1 1 0 0 0 0 0 ago OK", "firewall 1 0 0 1 0 0 0 ago Degraded", "firewall: rows in error: 1: update a: no such chain")
	r.says(t, "trigger firewall --status error", "firewall: 1 row triggered")
	r.says(t, "trigger dns --status error", "dns: 0 rows triggered")
}

func TestSeveralReconcilersShareAModule(t *testing.T) {
	var r running
	h := newHive(t, inspect.Cell(), reconcilercell.Cell(), things(
		dbcell.Protected(hostSchema()),
		cell.ProvidePrivate(func() reconciler.Target[host] { return half{} }),
		reconcilercell.RegisterWithStatus("hosts", statusOf("hosts")),
		fed[host](),
		cell.Invoke(func(db *statedb.DB, table *statedb.RWTable[thing]) { r.db, r.table = db, table }),
	))
	r.begin(t, h)
	r.insert(t, "x")
	r.allDone(t)
	var statuses []reconcilercell.Status
	if err := r.client.Get(t.Context(), "/v1/reconcilers", nil, &statuses); err != nil {
		t.Fatal(err)
	}
	if len(statuses) != 2 || statuses[0].Name != "hosts" || statuses[1].Name != "things" || statuses[1].Module != "things" {
		t.Errorf("got %+v", statuses)
	}
	if last := statuses[1].LastSuccess; time.Since(last) > time.Minute {
		t.Errorf("the last success was at %v", last)
	}
}
