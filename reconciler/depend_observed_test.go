package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// linked is two worlds of one database: addresses, which depend on the link of
// their device, and links. Both are compared with what is observed of them.
type linked struct {
	*world // of the addresses
	links  *world
	onLink *watchful // what is observed of the links
	own    *watchful // and of the addresses
}

// sightings has the rows of a world, in a table with a name, compared with another
// table.
func (w *world) sightings(name string) (*watchful, reconciler.Observation[row]) {
	schema := rowSchema()
	schema.Name = name
	w.table, w.name = must(statedb.NewTable(w.db, schema)), name
	w.sights = &watchful{world: w, seen: must(statedb.NewTable(w.db, statedb.Schema[sighting]{Name: "seen-" + name, Primary: sightingByID}))}
	return w.sights, reconciler.Observes(statedb.ReadOnly(w.sights.seen), func(_ statedb.ReadTxn, s sighting) iter.Seq[statedb.Query[row]] {
		return byIDs(s.ID)
	}, w.sights.compare)
}

func newLinked(t *testing.T) *linked {
	links := newWorld(t)
	other := *links
	l := &linked{world: &other, links: links}
	l.target, l.health, l.moves = newFake(), &healthLog{}, &moves{}
	l.target.promise = l.promise
	var onLink, own reconciler.Observation[row]
	l.onLink, onLink = l.links.sightings("links")
	l.own, own = l.sightings("addresses")
	l.links.params = func(p *reconciler.Params[row]) { p.Observed = onLink }
	l.params = func(p *reconciler.Params[row]) {
		p.Observed = own
		p.DependsOn = []reconciler.Dependency[row]{reconciler.DependsOn(statedb.ReadOnly(l.links.rows()), row.GetStatus,
			func(r row) iter.Seq[statedb.Query[row]] { return byIDs(device(r)) }, onLink)}
	}
	return l
}

// linking runs a test with a link and two addresses on it that are done, and seen
// to be so. The reconciler of the links is paused.
func linking(t *testing.T, test func(t *testing.T, l *linked)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLinked(t)
		l.links.start()
		l.links.put(row{ID: "eth0", Want: 1})
		l.onLink.see(sighting{"eth0", 1})
		l.own.sight(sighting{"eth0/1", 1}, sighting{"eth0/2", 1})
		l.start()
		l.put(row{ID: "eth0/1", Want: 1}, row{ID: "eth0/2", Want: 1})
		l.pass(time.Hour)
		l.wantConverged()
		l.target.log()
		l.links.check(l.links.r.Pause(t.Context(), reconciler.Selector[row]{}, time.Time{})) // its repairs are still to come
		test(t, l)
		l.stop()
		l.links.stop()
	})
}

func (l *linked) wantWait(key, want string) {
	l.t.Helper()
	texts := []string{}
	for _, n := range l.notDoneRows() {
		if n.Reconciler == "addresses" && n.Key == key {
			texts = append(texts, n.State+" "+n.WaitsFor)
		}
	}
	e, err := l.r.Explain(l.t.Context(), key)
	if err != nil {
		l.t.Fatal(err)
	}
	if want == "" {
		l.equal("not done", []string{}, texts)
		l.equal("explained", "nothing", e.WaitsFor[0].Cause)
		return
	}
	l.equal("not done", []string{"waiting dependency: " + want}, texts)
	l.equal("explained", "dependency: "+want, e.WaitsFor[0].Text)
}

const otherLink = `links eth0, which is pending, and differs from the observed state: value is "7", not "1"`

func TestARowWaitsForADependencyThatHasDrifted(t *testing.T) {
	linking(t, func(_ *testing.T, l *linked) {
		l.onLink.see(sighting{"eth0", 7}) // somebody has made it again
		l.put(row{ID: "eth0/1", Want: 2})
		l.pass(time.Minute)
		l.wantLog()
		l.wantWait("eth0/1", otherLink)
		l.onLink.see(sighting{"eth0", 8})
		l.pass(time.Second)
		l.wantWait("eth0/1", strings.Replace(otherLink, "7", "8", 1))
		l.onLink.miss("eth0")
		l.pass(time.Second)
		l.wantLog()
		l.wantWait("eth0/1", `links eth0, which is pending, and differs from the observed state: row is "absent", not "present"`)
		l.onLink.see(sighting{"eth0", 1})
		l.wantLog("update eth0/1=2")
		l.own.see(sighting{"eth0/1", 2})
		l.pass(time.Minute)
		l.wantWait("eth0/1", "")
	})
}

func TestDriftIsNotRepairedWhileADependencyHasDrifted(t *testing.T) {
	linking(t, func(_ *testing.T, l *linked) {
		l.onLink.see(sighting{"eth0", 7})
		l.own.miss("eth0/1")
		l.own.breaks("eth0/2", 9)
		l.pass(time.Minute)
		l.wantLog()
		l.wantWait("eth0/1", otherLink)
		l.own.see(sighting{"eth0/2", 1}) // right by itself: there is nothing to wait for
		l.pass(time.Second)
		l.wantWait("eth0/2", "")
		l.onLink.see(sighting{"eth0", 1})
		l.wantLog("update eth0/1=1")
		l.own.wantDrift(1)
	})
}

// What is gone with its link is made when the link is there again.
func TestRepairsAreMadeInOrder(t *testing.T) {
	linking(t, func(t *testing.T, l *linked) {
		l.links.target.vanish("eth0")
		l.onLink.miss("eth0")
		l.own.miss("eth0/1")
		l.own.miss("eth0/2")
		l.pass(time.Second)
		l.wantLog()
		l.links.check(l.links.r.Resume(t.Context(), reconciler.Selector[row]{}))
		l.pass(time.Second)
		l.equal("links", map[string]int{"eth0": 1}, l.links.target.state())
		l.wantLog() // it is not seen yet
		l.onLink.see(sighting{"eth0", 1})
		l.wantLog("update eth0/1=1", "update eth0/2=1")
	})
}

func TestDriftIsNotRepairedWhileADependencyIsInError(t *testing.T) {
	linking(t, func(t *testing.T, l *linked) {
		l.links.target.will(failing("eth0"))
		l.links.check(l.links.r.Resume(t.Context(), reconciler.Selector[row]{}))
		_, err := l.links.r.Trigger(t.Context(), reconciler.Selector[row]{})
		l.check(err)
		l.pass(time.Second)
		l.own.miss("eth0/1")
		l.pass(time.Second)
		l.wantLog()
		l.wantWait("eth0/1", "links eth0, which is in error: boom")
		l.links.target.will(nil)
		l.pass(time.Minute)
		l.own.see(sighting{"eth0/1", 1})
		l.equal("first operation", "update eth0/1=1", l.target.log()[0])
	})
}

func TestDeletesDoNotWaitForWhatIsObserved(t *testing.T) {
	linking(t, func(_ *testing.T, l *linked) {
		l.onLink.miss("eth0")
		l.delete("eth0/1")
		l.wantLog("delete eth0/1")
	})
}

func TestAnIncompleteObservedTableContradictsNothing(t *testing.T) {
	linking(t, func(t *testing.T, l *linked) {
		l.links.stop() // it would reset the status of what it sees to differ
		defer l.links.start()
		l.links.params = nil
		var source *statedb.Source
		tell := func(fn func(txn *statedb.WriteTxn) error) {
			t.Helper()
			l.check(l.db.Update(t.Context(), fn, l.onLink.seen))
			synctest.Wait()
		}
		tell(func(txn *statedb.WriteTxn) (err error) {
			source, err = l.onLink.seen.RegisterSource(txn, "kernel")
			return err
		})
		l.onLink.see(sighting{"eth0", 7})
		l.put(row{ID: "eth0/1", Want: 2})
		l.wantLog("update eth0/1=2") // the table is not initialized
		tell(source.Initialized)
		l.put(row{ID: "eth0/1", Want: 3})
		l.wantLog()
		l.wantWait("eth0/1", strings.Replace(otherLink, "is pending, and ", "", 1))
		tell(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "events were lost") })
		l.wantLog("update eth0/1=3")
		tell(source.Complete)
		l.put(row{ID: "eth0/2", Want: 3})
		l.wantLog()
		l.check(l.db.Drop(t.Context(), l.onLink.seen))
		synctest.Wait()
		l.wantLog("update eth0/2=3")
	})
}

func TestARowWhoseComparisonPanicsIsWaitedFor(t *testing.T) {
	linking(t, func(_ *testing.T, l *linked) {
		l.onLink.panics = "eth0"
		l.onLink.see(sighting{"eth1", 0}) // what was found before holds as long as nothing changes
		l.put(row{ID: "eth0/1", Want: 2})
		l.pass(time.Second)
		l.wantLog()
		l.wantWait("eth0/1", "links eth0, which could not be compared with the observed state: panic: out of cheese")
		l.onLink.panics = ""
		l.onLink.see(sighting{"eth1", 1})
		l.wantLog("update eth0/1=2")
	})
}

// The second of two rows that a worker has been given has to wait when its turn
// comes.
func TestARowHandedToAWorkerWaitsForADependencyThatHasDrifted(t *testing.T) {
	linking(t, func(_ *testing.T, l *linked) {
		l.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(time.Second)
			return reconciler.Result{}, nil
		})
		l.put(row{ID: "eth0/1", Want: 2}, row{ID: "eth0/2", Want: 2})
		l.own.see(sighting{"eth0/1", 2}, sighting{"eth0/2", 2})
		l.pass(time.Second / 2)
		l.onLink.see(sighting{"eth0", 7})
		l.pass(time.Second * 3)
		l.wantLog("update eth0/1=2")
		l.onLink.see(sighting{"eth0", 1})
		l.wantLog("update eth0/2=2")
		l.pass(time.Second)
	})
}

// Rows that depend on others go the short way too, and are put aside all the same.
func TestRowsOfARoundWaitForADependencyThatHasDrifted(t *testing.T) {
	linking(t, func(_ *testing.T, l *linked) {
		l.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.id == "eth0/0" {
				take(5 * time.Millisecond)
			}
			return reconciler.Result{}, nil
		})
		rows := make([]row, 10)
		for i := range rows {
			rows[i] = row{ID: fmt.Sprint("eth0/", i), Want: 5}
		}
		l.put(rows...)
		l.equal("rows of the round", 10, l.r.Round())
		l.pass(time.Millisecond)
		l.onLink.see(sighting{"eth0", 7})
		l.pass(100 * time.Millisecond)
		l.wantLog("update eth0/0=5")
		l.wantWait("eth0/9", otherLink)
		l.onLink.see(sighting{"eth0", 1})
		l.equal("operations", 9, len(l.target.log()))
	})
}

// Each of many rows depends on another one, more than are remembered.
func TestEachOfManyRowsWaitsForItsOwnDependency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinked(t)
		l.config.Limits.RoundSize = 500
		l.links.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if strings.HasSuffix(c.id, "7") {
				return reconciler.Result{}, reconciler.RetryAfter(time.Hour, errBoom)
			}
			return reconciler.Result{}, nil
		})
		var links, rows []row
		for i := range 3000 {
			links = append(links, row{ID: fmt.Sprint(i), Want: 1})
			rows = append(rows, row{ID: fmt.Sprint(i, "/1"), Want: 1})
			l.onLink.sight(sighting{fmt.Sprint(i), 1})
		}
		l.links.write(links...)
		l.links.start()
		l.pass(time.Second)
		l.write(rows...)
		l.start()
		l.pass(time.Second / 2)
		for r := range l.table.All(l.db.ReadTxn()) {
			if done := r.Status.Kind() == reconciler.Done; done == strings.HasSuffix(device(r), "7") {
				t.Fatalf("%s is %v", r.ID, r.Status)
			}
		}
		l.stop()
		l.links.stop()
	})
}

// TestRowsMakeProgressWhileTheirDependencyFlaps changes what is observed of links
// at any time: in the end, when all is as it should be, nobody waits.
func TestRowsMakeProgressWhileTheirDependencyFlaps(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random, chance := rand.New(rand.NewPCG(seed, 0)), newChance(seed)
			l := newLinked(t)
			l.seed, l.config.Workers = seed, 1+random.IntN(3)
			l.target.promise = func(c call, txn statedb.ReadTxn, r row) string {
				if s, _, _ := l.onLink.seen.Get(txn, sightingByID.Query(device(r))); c.op == "update" && s.Is != 1 {
					return "on a link that is not as it is observed"
				}
				return l.promise(c, txn, r)
			}
			l.target.will(func(context.Context, call) (reconciler.Result, error) {
				take(time.Duration(chance.n(4)) * time.Millisecond)
				return reconciler.Result{}, nil
			})
			l.links.write(row{ID: "eth0", Want: 1}, row{ID: "eth1", Want: 1})
			l.onLink.sight(sighting{"eth0", 1}, sighting{"eth1", 1})
			l.links.start()
			l.links.check(l.links.r.Pause(t.Context(), reconciler.Selector[row]{}, time.Time{}))
			l.launch()
			for range 100 {
				link := fmt.Sprint("eth", random.IntN(2))
				if random.IntN(2) == 0 {
					l.onLink.sight(sighting{link, random.IntN(3)})
				} else {
					l.write(row{ID: fmt.Sprint(link, "/", random.IntN(5)), Want: random.IntN(5)})
				}
				take(time.Duration(random.IntN(3000)) * time.Microsecond)
			}
			l.onLink.sight(sighting{"eth0", 1}, sighting{"eth1", 1})
			l.pass(500 * time.Millisecond) // before anything is compared or tried again
			for r := range l.table.All(l.db.ReadTxn()) {
				if r.Status.Kind() != reconciler.Done {
					t.Errorf("seed %d: %s is %v", seed, r.ID, r.Status)
				}
			}
			l.stop()
			l.links.stop()
		})
	}
}

func TestDependenciesWithAnObservationThatCannotWorkAreRefused(t *testing.T) {
	w := newWorld(t)
	o := withSightings(w)
	rows := func(statedb.ReadTxn, sighting) iter.Seq[statedb.Query[row]] { return nil }
	others := rowSchema()
	others.Name = "others"
	table := must(statedb.NewTable(w.db, others))
	strange := must(statedb.NewTable(statedb.New(), statedb.Schema[sighting]{Name: "seen", Primary: sightingByID}))
	for want, observation := range map[string]reconciler.Observation[row]{
		"Params.DependsOn[0]: the observation: the function that compares is not set": reconciler.Observes(statedb.ReadOnly(o.seen), rows, nil),
		"Params.DB: table seen": reconciler.Observes(statedb.ReadOnly(strange), rows, o.compare),
		"":                      {},
	} {
		p := reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: observing{w.target}}
		p.DependsOn = []reconciler.Dependency[row]{reconciler.DependsOn(statedb.ReadOnly(table), row.GetStatus, func(row) iter.Seq[statedb.Query[row]] {
			return slices.Values([]statedb.Query[row]{byID.Query("x")})
		}, observation)}
		if _, err := reconciler.New(p); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, expected %q", err, want)
		}
	}
}
