package reconciler_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// goneBed has a reconciler that is requested to run a row which is deleted by the time the
// request arrives. Its row with the empty key, which is also the key of a zero row, fails and
// is not done.
type goneBed[Obj any] struct {
	*world
	kind     rowKind[Obj]
	table    *statedb.RWTable[Obj]
	children *statedb.RWTable[child]
	seen     *statedb.RWTable[sighting]
	events   chan string
	r        *reconciler.Reconciler[Obj]

	mu    sync.Mutex
	armed bool
}

// leaves removes row "a" from everywhere, if that is to happen, while its caller
// works with a snapshot that has it.
func (b *goneBed[Obj]) leaves() {
	b.mu.Lock()
	armed := b.armed
	b.armed = false
	b.mu.Unlock()
	if armed {
		remove(b.t, b.db, b.table, b.kind.of(row{ID: "a"}))
		take(time.Second)
	}
}

func (b *goneBed[Obj]) a() iter.Seq[statedb.Query[Obj]] {
	b.leaves()
	return slices.Values([]statedb.Query[Obj]{b.kind.byID.Query("a")})
}

func (b *goneBed[Obj]) params() reconciler.Params[Obj] {
	return reconciler.Params[Obj]{
		DB: b.db, Table: b.table, Target: ofKind(b.kind, reconciler.Target[row](observing{b.target})), NotDone: b.notDone,
		Config: reconciler.Config{FullInterval: -1},
		Related: []reconciler.Related[Obj]{
			reconciler.Watches(statedb.ReadOnly(b.children), func(statedb.ReadTxn, child) iter.Seq[statedb.Query[Obj]] { return b.a() }),
			reconciler.Events(b.events, func(statedb.ReadTxn, string) iter.Seq[statedb.Query[Obj]] { return b.a() }),
		},
		Observed: reconciler.Observes(statedb.ReadOnly(b.seen), func(statedb.ReadTxn, sighting) iter.Seq[statedb.Query[Obj]] {
			return slices.Values([]statedb.Query[Obj]{b.kind.byID.Query("a")})
		}, func(txn statedb.ReadTxn, want Obj) []reconciler.Change {
			if b.seen.Len(txn) == 0 {
				return nil
			}
			b.leaves()
			return []reconciler.Change{{Field: "value", Is: "7", Want: "1"}}
		}),
	}
}

// whoAsks are those who have a row run that need not be there any more.
func whoAsks[Obj any]() map[string]func(*goneBed[Obj]) {
	return map[string]func(*goneBed[Obj]){
		"trigger": func(b *goneBed[Obj]) {
			_, err := b.r.Trigger(b.t.Context(), reconciler.Selector[Obj]{Match: func(obj Obj) bool {
				b.leaves()
				return b.kind.read(obj).ID == "a"
			}})
			b.check(err)
		},
		"event":   func(b *goneBed[Obj]) { b.events <- "a" },
		"related": func(b *goneBed[Obj]) { insert(b.t, b.db, b.children, child{ID: "x"}) },
		"drift":   func(b *goneBed[Obj]) { insert(b.t, b.db, b.seen, sighting{"a", 7}) },
	}
}

func testRowsThatAreGone[Obj any](t *testing.T, kind rowKind[Obj]) {
	t.Helper()
	kind.schema.Name = "kept"
	for name, ask := range whoAsks[Obj]() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				b := &goneBed[Obj]{
					world: w, kind: kind, table: must(statedb.NewTable(w.db, kind.schema)), events: make(chan string),
					children: must(statedb.NewTable(w.db, statedb.Schema[child]{Name: "children", Primary: childByID})),
					seen:     must(statedb.NewTable(w.db, statedb.Schema[sighting]{Name: "seen", Primary: sightingByID})),
				}
				b.test(ask)
			})
		})
	}
}

func (b *goneBed[Obj]) test(ask func(*goneBed[Obj])) {
	b.target.promise = func(call, statedb.ReadTxn, row) string { return "" }
	b.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
		if c.id == "" {
			return reconciler.Result{}, reconciler.RetryAfter(time.Hour, errBoom)
		}
		return reconciler.Result{}, nil
	})
	insert(b.t, b.db, b.table, b.kind.of(row{Want: 1}), b.kind.of(row{ID: "a", Want: 1}))
	b.r = must(reconciler.NewWithStatus(b.params(), b.kind.status))
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.r.Run(ctx) }()
	b.pass(10 * time.Second)
	b.target.log()

	b.armed = true
	ask(b)
	b.pass(10 * time.Second)
	b.wantLog("delete a")
	b.equal("items", 1, len(b.r.Items()))
	notDone := b.notDoneRows()
	if len(notDone) != 1 || notDone[0].Key != "" || notDone[0].State != "error" {
		b.t.Errorf("not done is %+v, expected the row that fails", notDone)
	}
	insert(b.t, b.db, b.table, b.kind.of(row{ID: "a", Want: 2})) // all goes on
	synctest.Wait()
	b.wantLog("update a=2")
	cancel()
	b.check(<-ended)
}

func TestRequestsToRunADeletedRowAreIgnored(t *testing.T) {
	t.Run("by value", func(t *testing.T) { testRowsThatAreGone(t, rowsByValue()) })
	t.Run("by pointer", func(t *testing.T) { testRowsThatAreGone(t, rowsByPointer()) })
}
