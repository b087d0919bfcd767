package reconcilercell_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

// part is a row that is of a thing.
type part struct {
	ID     string
	Thing  string
	Status reconciler.Status
}

func (p part) GetStatus() reconciler.Status        { return p.Status }
func (p part) WithStatus(s reconciler.Status) part { p.Status = s; return p }

var (
	partByID    = statedb.NewIndex("id", func(p part) string { return p.ID })
	partByThing = statedb.NewIndex("thing", func(p part) string { return p.Thing })
)

func one[Obj any](q statedb.Query[Obj]) iter.Seq[statedb.Query[Obj]] {
	return slices.Values([]statedb.Query[Obj]{q})
}

// calls is a target of any rows that tells what is asked of it.
type calls[Obj any] struct {
	log chan<- string
	key func(Obj) string
}

func (calls[Obj]) Init(context.Context) error { return nil }

func (c calls[Obj]) Update(_ context.Context, _ statedb.ReadTxn, row Obj) (reconciler.Result, error) {
	c.log <- "update " + c.key(row)
	if c.key(row) == "bad" {
		return reconciler.Result{}, reconciler.Terminal(errors.New("no such thing"))
	}
	return reconciler.Result{}, nil
}

func (c calls[Obj]) Delete(_ context.Context, _ statedb.ReadTxn, row Obj) error {
	c.log <- "delete " + c.key(row)
	return nil
}

func (calls[Obj]) Prune(context.Context, statedb.ReadTxn, iter.Seq2[Obj, statedb.Revision]) (int, error) {
	return 0, nil
}

// seenPart is what somebody has seen of a part.
type seenPart struct{ ID, Is string }

var seenByID = statedb.NewIndex("id", func(s seenPart) string { return s.ID })

// module is a module of rows whose target logs.
func module[Obj reconciler.Reconcilable[Obj]](
	schema statedb.Schema[Obj], target calls[Obj], relations any,
) cell.Cell {
	return cell.Module(schema.Name, schema.Name+" of the test",
		dbcell.Open(reconciler.Reconciled(schema)),
		cell.ProvidePrivate(func() reconciler.Target[Obj] { return target }, relations),
		reconcilercell.Register[Obj](),
		fed[Obj](),
	)
}

// related are modules of things, of parts of them, and of parts that somebody has
// seen, with the relations of the first two.
func related(log chan<- string, ofThings, ofParts any) cell.Cell {
	return cell.Group(
		module(statedb.Schema[part]{Name: "parts", Primary: partByID, Secondary: []statedb.Indexer[part]{partByThing}},
			calls[part]{log, func(p part) string { return p.ID }}, ofParts),
		module(statedb.Schema[thing]{Name: "things", Primary: byID},
			calls[thing]{log, func(t thing) string { return t.ID }}, ofThings),
		cell.Module("seen", "what was seen of parts", dbcell.Open(statedb.Schema[seenPart]{Name: "seen-parts", Primary: seenByID})),
	)
}

func noRelations() reconcilercell.Relations[thing] { return reconcilercell.Relations[thing]{} }

func thingsOf(p part) iter.Seq[statedb.Query[thing]] { return one(byID.Query(p.Thing)) }

func partsOf(_ statedb.ReadTxn, t thing) iter.Seq[statedb.Query[part]] {
	return one(partByThing.Query(t.ID))
}

// relatives is a hive of related modules that has started.
type relatives struct {
	running

	parts *statedb.RWTable[part]
	seen  *statedb.RWTable[seenPart]
	log   chan string
}

func startRelated(t *testing.T, ofParts any) relatives {
	t.Helper()
	r := relatives{log: make(chan string, 100)}
	h := newHive(t, inspect.Cell(), reconcilercell.Cell(), related(r.log, noRelations, ofParts),
		cell.Invoke(func(db *statedb.DB, things *statedb.RWTable[thing], parts *statedb.RWTable[part], seen *statedb.RWTable[seenPart]) {
			r.db, r.table, r.parts, r.seen = db, things, parts, seen
		}))
	r.begin(t, h)
	return r
}

func (r relatives) commit(t *testing.T, fn func(txn *statedb.WriteTxn) error) {
	t.Helper()
	if err := r.db.Update(t.Context(), fn, r.table, r.parts, r.seen); err != nil {
		t.Fatal(err)
	}
}

func (r relatives) write(t *testing.T, th thing, p part) {
	t.Helper()
	r.commit(t, func(txn *statedb.WriteTxn) error {
		_, _, err := r.table.Insert(txn, th)
		_, _, err2 := r.parts.Insert(txn, p)
		return errors.Join(err, err2)
	})
}

// wantCalls waits until the targets were called so.
func (r relatives) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	for i := range want {
		select {
		case got := <-r.log:
			if got != want[i] {
				t.Fatalf("call %d is %q, expected %q of %q", i+1, got, want[i], want)
			}
		case <-time.After(patience):
			t.Fatalf("call %d does not come, expected %q of %q", i+1, want[i], want)
		}
	}
}

func TestARowWaitsForThoseThatItsModuleSaysItDependsOn(t *testing.T) {
	r := startRelated(t, func(things *statedb.Table[thing]) reconcilercell.Relations[part] {
		return reconcilercell.Relations[part]{DependsOn: []reconciler.Dependency[part]{
			reconciler.DependsOn(things, thing.GetStatus, thingsOf),
		}}
	})
	r.write(t, thing{ID: "bad"}, part{ID: "a1", Thing: "bad"})
	r.wantCalls(t, "update bad")
	r.eventually(t, "explain parts a1", "dependency: things bad, which is in error: no such thing")
	r.write(t, thing{ID: "good"}, part{ID: "a1", Thing: "good"})
	r.wantCalls(t, "update good", "update a1")

	// What one commit deletes goes in reverse, whoever comes first.
	r.commit(t, func(txn *statedb.WriteTxn) error {
		_, _, err := r.table.Delete(txn, thing{ID: "good"})
		_, _, err2 := r.parts.Delete(txn, part{ID: "a1"})
		return errors.Join(err, err2)
	})
	r.wantCalls(t, "delete a1", "delete good")
}

func TestARowIsRunWhenOneChangesThatItsModuleSaysItIsRelatedTo(t *testing.T) {
	r := startRelated(t, func(things *statedb.Table[thing]) reconcilercell.Relations[part] {
		return reconcilercell.Relations[part]{Related: []reconciler.Related[part]{reconciler.Watches(things, partsOf)}}
	})
	r.commit(t, func(txn *statedb.WriteTxn) error {
		_, _, err := r.parts.Insert(txn, part{ID: "a1", Thing: "a"})
		return err
	})
	r.wantCalls(t, "update a1")
	r.insert(t, "a")
	for deadline := time.After(patience); ; {
		select {
		case got := <-r.log:
			if got == "update a1" {
				return
			}
		case <-deadline:
			t.Fatal("the part is not run when its thing has changed")
		}
	}
}

func TestARowIsRepairedWhenItsModuleObservesThatItDiffers(t *testing.T) {
	r := startRelated(t, func(seen *statedb.Table[seenPart]) reconcilercell.Relations[part] {
		return reconcilercell.Relations[part]{Observed: reconciler.Observes(seen,
			func(_ statedb.ReadTxn, s seenPart) iter.Seq[statedb.Query[part]] { return one(partByID.Query(s.ID)) },
			func(txn statedb.ReadTxn, want part) []reconciler.Change {
				s, _, found := seen.Get(txn, seenByID.Query(want.ID))
				if !found || s.Is == want.Thing {
					return nil
				}
				return []reconciler.Change{{Field: "thing", Is: s.Is, Want: want.Thing}}
			})}
	})
	r.write(t, thing{ID: "a"}, part{ID: "a1", Thing: "a"})
	for range 2 {
		<-r.log
	}
	r.commit(t, func(txn *statedb.WriteTxn) error {
		_, _, err := r.seen.Insert(txn, seenPart{"a1", "b"})
		return err
	})
	r.wantCalls(t, "update a1")
}

func TestAHiveWhoseTablesDependOnEachOtherInACycleDoesNotStart(t *testing.T) {
	h := newHive(t, inspect.Cell(), reconcilercell.Cell(), related(make(chan string),
		func(parts *statedb.Table[part]) reconcilercell.Relations[thing] {
			return reconcilercell.Relations[thing]{DependsOn: []reconciler.Dependency[thing]{
				reconciler.DependsOn(parts, part.GetStatus, func(t thing) iter.Seq[statedb.Query[part]] { return partsOf(nil, t) }),
			}}
		},
		func(things *statedb.Table[thing]) reconcilercell.Relations[part] {
			return reconcilercell.Relations[part]{DependsOn: []reconciler.Dependency[part]{
				reconciler.DependsOn(things, thing.GetStatus, thingsOf),
			}}
		}))
	err := h.Start(t.Context())
	if !errors.Is(err, reconciler.ErrCycle) || !strings.Contains(err.Error(), "things -> parts -> things") {
		t.Errorf("error %v", err)
	}
}

func TestARowIsAppliedAgainAfterTheIntervalOfItsModule(t *testing.T) {
	r := startRelated(t, func() reconcilercell.Relations[part] {
		return reconcilercell.Relations[part]{RefreshInterval: func(part) time.Duration { return 10 * time.Millisecond }}
	})
	r.commit(t, func(txn *statedb.WriteTxn) error {
		_, _, err := r.parts.Insert(txn, part{ID: "a1"})
		return err
	})
	r.wantCalls(t, "update a1", "update a1", "update a1")
}
