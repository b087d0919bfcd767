package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// whoNames are those who name the row "a", which is not there, besides whoAsks.
func whoNames[Obj any]() map[string]func(*goneBed[Obj]) {
	ways := whoAsks[Obj]()
	ways["trigger by key"] = func(b *goneBed[Obj]) {
		n, err := b.r.Trigger(b.t.Context(), reconciler.Selector[Obj]{Keys: []string{"a"}})
		b.check(err)
		b.equal("triggered", 0, n)
	}
	ways["forget"] = func(b *goneBed[Obj]) {
		var unknown *reconciler.UnknownKeyError
		if err := b.r.Forget(b.t.Context(), "a"); !errors.As(err, &unknown) {
			b.t.Errorf("Forget: %v", err)
		}
	}
	ways["explain"] = func(b *goneBed[Obj]) {
		var unknown *reconciler.UnknownKeyError
		if _, err := b.r.Explain(b.t.Context(), "a"); !errors.As(err, &unknown) {
			b.t.Errorf("Explain: %v", err)
		}
	}
	ways["wait"] = func(b *goneBed[Obj]) { b.check(b.r.WaitRow(b.t.Context(), b.kind.of(row{ID: "a"}))) }
	ways["pause"] = func(b *goneBed[Obj]) {
		b.check(b.r.Pause(b.t.Context(), reconciler.Selector[Obj]{Keys: []string{"a"}}, time.Time{}))
		insert(b.t, b.db, b.children, child{ID: "x"})
		synctest.Wait()
		b.check(b.r.Resume(b.t.Context(), reconciler.Selector[Obj]{Keys: []string{"a"}}))
	}
	ways["event, again and again"] = func(b *goneBed[Obj]) {
		for range 300 {
			b.events <- "a"
		}
	}
	return ways
}

func testRowsThatNeverExisted[Obj any](t *testing.T, kind rowKind[Obj]) {
	t.Helper()
	kind.schema.Name = "kept"
	for name, ask := range whoNames[Obj]() {
		for history, others := range map[string][]row{
			"with a row that fails and has the empty key": {{Want: 1}},
			"without any row":  nil,
			"deleted long ago": {{ID: "a", Want: 1}},
		} {
			t.Run(name+"/"+history, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					b := &goneBed[Obj]{
						world: w, kind: kind, table: must(statedb.NewTable(w.db, kind.schema)), events: make(chan string),
						children: must(statedb.NewTable(w.db, statedb.Schema[child]{Name: "children", Primary: childByID})),
						seen:     must(statedb.NewTable(w.db, statedb.Schema[sighting]{Name: "seen", Primary: sightingByID})),
					}
					b.nameNobody(others, ask)
				})
			})
		}
	}
}

func (b *goneBed[Obj]) nameNobody(others []row, ask func(*goneBed[Obj])) {
	b.target.promise = func(call, statedb.ReadTxn, row) string { return "" }
	b.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
		if c.id == "" {
			return reconciler.Result{}, reconciler.RetryAfter(24*time.Hour, errBoom)
		}
		return reconciler.Result{}, nil
	})
	for _, r := range others {
		insert(b.t, b.db, b.table, b.kind.of(r))
	}
	b.r = must(reconciler.NewWithStatus(b.params(), b.kind.status))
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.r.Run(ctx) }()
	b.pass(10 * time.Second)
	remove(b.t, b.db, b.table, b.kind.of(row{ID: "a"}))
	b.pass(10 * time.Second)
	b.target.log()
	before, items := b.notDoneRows(), len(b.r.Items())

	ask(b)
	b.pass(10 * time.Second)
	b.wantLog()
	b.equal("not done", before, b.notDoneRows())
	b.equal("items", items, len(b.r.Items()))
	b.pass(time.Hour)
	b.wantLog()
	b.equal("not done", before, b.notDoneRows())
	cancel()
	b.check(<-ended)
}

func TestRequestsToRunARowThatNeverExistedAreIgnored(t *testing.T) {
	t.Run("by value", func(t *testing.T) { testRowsThatNeverExisted(t, rowsByValue()) })
	t.Run("by pointer", func(t *testing.T) { testRowsThatNeverExisted(t, rowsByPointer()) })
}
