package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// The addresses know of the link no more than its status.
func TestARowWaitsForADependencyThatIsToBeRepaired(t *testing.T) {
	for name, way := range map[string]struct {
		differ func(l *linked) // the address
		want   string
	}{
		"an update": {func(l *linked) { l.put(row{ID: "eth0/1", Want: 2}) }, "update eth0/1=2"},
		"a repair":  {func(l *linked) { l.own.breaks("eth0/1", 9) }, "update eth0/1=1"},
	} {
		t.Run(name, func(t *testing.T) {
			linkedByStatus(t, func(t *testing.T, l *linked) {
				l.onLink.see(sighting{"eth0", 7}) // its own repair is paused
				l.pass(seenSoon)
				l.equal("link", reconciler.Pending, l.links.status("eth0").Kind())
				way.differ(l)
				l.pass(time.Minute)
				l.wantLog()
				l.equal("waits for", "dependency", must(l.r.Explain(t.Context(), "eth0/1")).WaitsFor[0].Cause)
				l.equal("address", reconciler.Pending, l.status("eth0/1").Kind())
				l.links.resume(reconciler.Selector[row]{})
				l.pass(seenSoon)
				l.onLink.see(sighting{"eth0", 1})
				l.equal("first operation", way.want, firstOf(l.target.log()))
			})
		})
	}
}

func firstOf(log []string) string {
	if len(log) == 0 {
		return "none"
	}
	return log[0]
}

// linkedByStatus is linking, but that the addresses compare the link with nothing.
func linkedByStatus(t *testing.T, test func(t *testing.T, l *linked)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLinked(t)
		observed := l.params
		l.params = func(p *reconciler.Params[row]) {
			observed(p)
			p.DependsOn = []reconciler.Dependency[row]{reconciler.DependsOn(statedb.ReadOnly(l.links.rows()), row.GetStatus,
				func(r row) iter.Seq[statedb.Query[row]] { return byIDs(device(r)) })}
		}
		l.links.start()
		l.links.put(row{ID: "eth0", Want: 1})
		l.onLink.see(sighting{"eth0", 1})
		l.own.sight(sighting{"eth0/1", 1})
		l.start()
		l.put(row{ID: "eth0/1", Want: 1})
		l.pass(time.Hour)
		l.wantConverged()
		l.target.log()
		l.links.pause(reconciler.Selector[row]{}, time.Time{}) // its repairs are still to come
		test(t, l)
		l.stop()
		l.links.stop()
	})
}

// Only the observation of the link shows that it was replaced. It arrives while a worker has the
// repair of the address.
func TestARepairHandedToAWorkerWaitsForADependencyThatHasDrifted(t *testing.T) {
	linking(t, func(_ *testing.T, l *linked) {
		l.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.id == "eth0/1" {
				l.onLink.sight(sighting{"eth0", 7})
			}
			return reconciler.Result{}, nil
		})
		l.target.corrupt("eth0/2", 9)
		l.target.corrupt("eth0/1", 9)
		l.own.see(sighting{"eth0/1", 9}, sighting{"eth0/2", 9}) // both are handed out together
		l.wantLog("update eth0/1=1")
		l.pass(time.Second)
		l.wantWait("eth0/2", otherLink)
	})
}

func TestARepairSaysThatItWaitsForARowInError(t *testing.T) {
	linking(t, func(t *testing.T, l *linked) {
		l.links.target.will(failing("eth0"))
		l.links.resume(reconciler.Selector[row]{})
		_, err := l.links.r.Trigger(t.Context(), reconciler.Selector[row]{})
		l.check(err)
		l.pass(time.Second)
		l.own.breaks("eth0/1", 9)
		l.pass(time.Second)
		l.wantLog()
		l.wantWait("eth0/1", "links eth0, which is in error: boom")
		l.wantStatus("eth0/1", "pending")
		if got := l.health.last(); got == "ok: reconciled" {
			t.Error("health is green, although an address is known to differ")
		}
	})
}

// What is made known of one row is made known of many, and no less soon.
func TestManyRowsThatDifferAreAllPendingSoon(t *testing.T) {
	const n = 2000
	watching(t, nil, func(t *testing.T, o *watchful) {
		var seen []sighting
		for _, r := range numbered(n, 1) {
			seen = append(seen, sighting{r.ID, 1})
		}
		o.sight(seen...)
		o.put(numbered(n, 1)...)
		o.pass(time.Hour)
		o.pause(reconciler.Selector[row]{}, time.Time{})
		for _, s := range seen {
			o.target.vanish(s.ID)
		}
		remove(t, o.db, o.seen, seen...)
		synctest.Wait()
		o.pass(seenSoon)
		s := o.r.Summary(o.db.ReadTxn())
		o.equal("done and pending", fmt.Sprint(3, n), fmt.Sprint(s.Done, s.Pending))
		o.target.log()
		o.resume(reconciler.Selector[row]{})
		o.see(seen...)
		o.pass(time.Minute)
		o.wantConverged()
		o.equal("operations", n, len(o.target.took()))
	})
}

// The table of what is observed is dropped: nobody knows any more.
func TestARowThatDifferedIsAppliedWhenNothingIsObservedAnyMore(t *testing.T) {
	watching(t, nil, func(t *testing.T, o *watchful) {
		o.pause(keys("a"), time.Time{})
		o.breaks("a", 7)
		o.pass(seenSoon)
		o.wantStatus("a", "pending")
		o.check(o.db.Drop(t.Context(), o.seen))
		o.pass(time.Minute)
		o.wantStatus("a", "pending")
		o.target.log()
		o.resume(reconciler.Selector[row]{})
		o.pass(time.Minute)
		o.wantLog("update a=1")
		o.wantConverged()
	})
}
