package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// child is a row of another table, which names the rows that depend on it.
type child struct {
	ID     string
	Owners string // separated by blanks
	Number int
}

var childByID = statedb.NewIndex("id", func(c child) string { return c.ID })

// related is a world with a table of children.
type related struct {
	*world
	children *statedb.RWTable[child]
	panics   string // the children whose owners cannot be told
	byTens   bool   // of the number of a child only the tens matter
}

func byIDs(ids ...string) iter.Seq[statedb.Query[row]] {
	return func(yield func(statedb.Query[row]) bool) {
		for _, id := range ids {
			if !yield(byID.Query(id)) {
				return
			}
		}
	}
}

func withChildren(w *world) *related {
	r := &related{world: w, children: must(statedb.NewTable(w.db, statedb.Schema[child]{Name: "children", Primary: childByID}))}
	owners := func(_ statedb.ReadTxn, c child) iter.Seq[statedb.Query[row]] {
		if c.ID == r.panics {
			panic("out of cheese")
		}
		if c.ID == "slow" {
			take(time.Second)
		}
		return byIDs(strings.Fields(c.Owners)...)
	}
	w.params = func(p *reconciler.Params[row]) {
		p.Related = []reconciler.Related[row]{reconciler.Watches(statedb.ReadOnly(r.children), owners)}
		if r.byTens {
			tens := func(c child) int { return c.Number / 10 }
			p.Related[0] = reconciler.WatchesBy(statedb.ReadOnly(r.children), tens, owners)
		}
	}
	return r
}

func relating(t *testing.T, test func(t *testing.T, r *related)) {
	t.Helper()
	var r *related
	prepared(t, func(w *world) {
		r = withChildren(w)
		w.write(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
	}, func(t *testing.T, w *world) {
		w.target.log()
		test(t, r)
	})
}

func (r *related) child(cs ...child) {
	r.t.Helper()
	insert(r.t, r.db, r.children, cs...)
	synctest.Wait()
}

func insert[Obj any](t *testing.T, db *statedb.DB, table *statedb.RWTable[Obj], rows ...Obj) {
	t.Helper()
	err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for _, r := range rows {
			if _, _, err := table.Insert(txn, r); err != nil {
				return err
			}
		}
		return nil
	}, table)
	if err != nil {
		t.Error(err)
	}
}

func remove[Obj any](t *testing.T, db *statedb.DB, table *statedb.RWTable[Obj], rows ...Obj) {
	t.Helper()
	err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for _, r := range rows {
			if _, _, err := table.Delete(txn, r); err != nil {
				return err
			}
		}
		return nil
	}, table)
	if err != nil {
		t.Error(err)
	}
}

func TestAChangeOfAChildRunsItsOwnersOnce(t *testing.T) {
	relating(t, func(_ *testing.T, r *related) {
		r.child(child{ID: "x", Owners: "a b"})
		r.wantLog("update a=1", "update b=1")
		r.child(child{ID: "x", Owners: "a b", Number: 1})
		r.wantLog("update a=1", "update b=1")
		r.child(child{ID: "y", Owners: "nobody"})
		r.pass(time.Hour)
		r.wantLog()
		r.wantConverged()
	})
}

func TestWhenTheMappingOfAChildChangesOldAndNewOwnersRun(t *testing.T) {
	relating(t, func(_ *testing.T, r *related) {
		r.child(child{ID: "x", Owners: "a"})
		r.target.log()
		r.child(child{ID: "x", Owners: "b"})
		r.wantLog("update a=1", "update b=1")
		r.child(child{ID: "x", Owners: "b", Number: 1})
		r.wantLog("update b=1")
		r.child(child{ID: "x", Number: 1})
		r.wantLog("update b=1")
		r.child(child{ID: "x", Owners: "c"})
		r.target.log()
		remove(t, r.db, r.children, child{ID: "x"})
		r.pass(0)
		r.wantLog("update c=1")
	})
}

func TestAChangeOfAChildRunsItsOwnersIfItMatters(t *testing.T) {
	relating(t, func(_ *testing.T, r *related) {
		r.stop()
		r.byTens = true
		r.start()
		r.target.log()
		r.child(child{ID: "x", Owners: "a", Number: 1})
		r.wantLog("update a=1")
		r.child(child{ID: "x", Owners: "a", Number: 2})
		r.wantLog()
		r.child(child{ID: "x", Owners: "a", Number: 13})
		r.wantLog("update a=1")
		r.child(child{ID: "x", Owners: "b", Number: 14})
		r.wantLog("update a=1", "update b=1")
		r.panics = "x"
		r.child(child{ID: "x", Owners: "b", Number: 15})
		r.wantLog("update b=1")
		r.panics = ""
		r.child(child{ID: "x", Owners: "b", Number: 16})
		r.wantLog("update b=1")
		r.child(child{ID: "x", Owners: "b", Number: 17})
		r.wantLog()
		remove(t, r.db, r.children, child{ID: "x"})
		r.pass(0)
		r.wantLog("update b=1")
		r.child(child{ID: "x", Owners: "b", Number: 17})
		r.wantLog("update b=1")
	})
}

func TestAChildRunsPendingDeletesButNoRowsThatAreGone(t *testing.T) {
	relating(t, func(_ *testing.T, r *related) {
		r.target.will(failing("a"))
		r.delete("a", "b")
		r.target.log()
		r.child(child{ID: "x", Owners: "a b"})
		r.wantLog("delete a")
		r.target.will(nil)
		r.child(child{ID: "x", Owners: "a b", Number: 2})
		r.wantLog("delete a")
		r.child(child{ID: "x", Owners: "a b", Number: 3})
		r.wantLog()
	})
}

func TestDoneRowsWithChildrenRunOnceMoreAfterARestart(t *testing.T) {
	relating(t, func(_ *testing.T, r *related) {
		r.stop()
		r.target.log()
		insert(r.t, r.db, r.children, child{ID: "x", Owners: "a"}, child{ID: "y", Owners: "b a"})
		r.write(row{ID: "b", Want: 2})
		r.start()
		r.pass(time.Hour)
		log := r.target.log()
		slices.Sort(log)
		r.equal("operations", []string{"init", "observe", "update a=1", "update b=2"}, log)
	})
}

func TestAChangeOfAChildWhileItsOwnerRunsRunsItAgain(t *testing.T) {
	relating(t, func(_ *testing.T, r *related) {
		r.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(time.Second)
			return reconciler.Result{}, nil
		})
		r.put(row{ID: "a", Want: 2})
		r.pass(time.Second / 2)
		for i := range 10_000 {
			r.child(child{ID: "x", Owners: "a", Number: i + 1})
		}
		r.pass(time.Minute)
		r.wantLog("update a=2", "update a=2")
	})
}

func TestAPanicOfAMappingIsReportedAndOthersGoOn(t *testing.T) {
	relating(t, func(_ *testing.T, r *related) {
		r.child(child{ID: "x", Owners: "a"})
		r.target.log()
		r.panics = "x"
		r.child(child{ID: "x", Owners: "b"})
		r.wantLog("update a=1")
		r.equal("health", `degraded: related table children: "x": panic: out of cheese`, r.health.last())
		r.child(child{ID: "y", Owners: "c"})
		r.wantLog("update c=1")
		r.panics = ""
		r.child(child{ID: "x", Owners: "b", Number: 1})
		r.wantLog("update b=1")
		r.equal("health", "ok: reconciled", r.health.last())
	})
}

func TestOwnersOfChildrenWhoseDeletesWereLostRun(t *testing.T) {
	for _, byTens := range []bool{false, true} {
		t.Run(fmt.Sprint("by tens: ", byTens), func(t *testing.T) { testLostDeletes(t, byTens) })
	}
}

func testLostDeletes(t *testing.T, byTens bool) {
	t.Helper()
	relating(t, func(t *testing.T, r *related) {
		r.stop()
		r.byTens = byTens
		r.start()
		r.child(child{ID: "x", Owners: "a"}, child{ID: "y", Owners: "b"})
		r.target.log()
		insert(t, r.db, r.children, child{ID: "slow"})
		r.pass(0)
		remove(t, r.db, r.children, child{ID: "x"})
		for range 40 { // more deletes than the feed keeps
			err := r.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				for range 1000 {
					if _, _, err := r.children.Insert(txn, child{ID: "busy"}); err != nil {
						return err
					}
					if _, _, err := r.children.Delete(txn, child{ID: "busy"}); err != nil {
						return err
					}
				}
				return nil
			}, r.children)
			if err != nil {
				t.Fatal(err)
			}
		}
		r.pass(time.Minute)
		r.wantLog("update a=1", "update b=1") // b because y is listed once more
	})
}

func eventful(t *testing.T, test func(t *testing.T, w *world, events chan<- string)) {
	t.Helper()
	var events chan string
	prepared(t, func(w *world) {
		events = make(chan string)
		w.params = func(p *reconciler.Params[row]) {
			p.Related = []reconciler.Related[row]{reconciler.Events(events, func(_ statedb.ReadTxn, e string) iter.Seq[statedb.Query[row]] {
				if e == "bad" {
					panic("out of cheese")
				}
				return byIDs(strings.Fields(e)...)
			})}
		}
		w.write(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
	}, func(t *testing.T, w *world) {
		w.target.log()
		test(t, w, events)
	})
}

func TestOneEventRunsThreeKeysOnce(t *testing.T) {
	eventful(t, func(_ *testing.T, w *world, events chan<- string) {
		events <- "a b c nobody"
		w.pass(time.Hour)
		w.wantLog("update a=1", "update b=1", "update c=1")
		events <- "bad"
		events <- "b"
		w.pass(0)
		w.wantLog("update b=1")
		close(events)
		w.pass(time.Hour)
		w.wantLog()
	})
}

func TestTenThousandEventsOnAKeyAreAtMostTwoRuns(t *testing.T) {
	eventful(t, func(_ *testing.T, w *world, events chan<- string) {
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(time.Second)
			return reconciler.Result{}, nil
		})
		for range 10_000 {
			events <- "a"
		}
		w.pass(time.Minute)
		w.wantLog("update a=1", "update a=1")
	})
}

// TestTheOrderOfRelatedChangesDoesNotMatter holds that the last run of an owner
// has seen the last of its children, whatever the order and timing of changes.
func TestTheOrderOfRelatedChangesDoesNotMatter(t *testing.T) {
	for seed := range uint64(50) {
		random, chance := rand.New(rand.NewPCG(seed, 0)), newChance(seed)
		var r *related
		sums := map[string]int{}
		prepared(t, func(w *world) {
			r = withChildren(w)
			w.config.Workers = 3
			w.target.promise = func(c call, txn statedb.ReadTxn, _ row) string {
				chance.mu.Lock()
				defer chance.mu.Unlock()
				sums[c.id] = r.sum(txn, c.id)
				return ""
			}
			w.write(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
		}, func(t *testing.T, w *world) {
			w.target.will(func(context.Context, call) (reconciler.Result, error) {
				take(time.Duration(chance.n(3)) * time.Millisecond)
				if chance.n(4) == 0 {
					return reconciler.Result{}, errBoom
				}
				return reconciler.Result{}, nil
			})
			for range 40 {
				owners := []string{"a", "b", "c"}
				random.Shuffle(3, func(i, j int) { owners[i], owners[j] = owners[j], owners[i] })
				c := child{fmt.Sprint(random.IntN(4)), strings.Join(owners[:random.IntN(3)], " "), random.IntN(100)}
				switch random.IntN(6) {
				case 0:
					remove(t, w.db, r.children, c)
				case 1:
					w.write(row{ID: owners[0], Want: random.IntN(100)})
				default:
					insert(t, w.db, r.children, c)
				}
				w.pass(time.Duration(random.IntN(3)) * time.Millisecond)
			}
			w.target.will(nil)
			w.pass(10 * time.Minute)
			w.wantConverged()
			for _, id := range []string{"a", "b", "c"} {
				if want := r.sum(w.db.ReadTxn(), id); sums[id] != want {
					t.Errorf("seed %d: %s was last run with %d, its children sum up to %d", seed, id, sums[id], want)
				}
			}
		})
	}
}

// chance can be taken by several goroutines.
type chance struct {
	mu     sync.Mutex
	random *rand.Rand
}

func newChance(seed uint64) *chance { return &chance{random: rand.New(rand.NewPCG(seed, 1))} }

func (c *chance) n(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (r *related) sum(txn statedb.ReadTxn, owner string) (sum int) {
	for c := range r.children.All(txn) {
		if slices.Contains(strings.Fields(c.Owners), owner) {
			sum += c.Number
		}
	}
	return sum
}

func TestRelationsThatCannotWorkAreRefused(t *testing.T) {
	w := newWorld(t)
	other := must(statedb.NewTable(statedb.New(), statedb.Schema[child]{Name: "children", Primary: childByID}))
	none := func(statedb.ReadTxn, child) iter.Seq[statedb.Query[row]] { return nil }
	for want, relation := range map[string]reconciler.Related[row]{
		"is empty":                   {},
		"the table is not set":       reconciler.Watches(nil, none),
		"that names rows is not set": reconciler.Watches[row](statedb.ReadOnly(w.notDone), nil),
		"names rows is not set":      reconciler.WatchesBy[row, reconciler.NotDone, int](statedb.ReadOnly(w.notDone), nil, func(statedb.ReadTxn, reconciler.NotDone) iter.Seq[statedb.Query[row]] { return nil }),
		"the channel is nil":         reconciler.Events[row, int](nil, nil),
		"Params.DB: table children":  reconciler.Watches(statedb.ReadOnly(other), none),
	} {
		_, err := reconciler.New(reconciler.Params[row]{
			DB: w.db, Table: w.rows(), Target: observing{w.target}, Related: []reconciler.Related[row]{relation},
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, expected %q", err, want)
		}
	}
}
