package route

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

// addRoutes adds many IPv6 routes. The words say where they lead.
func addRoutes(t *testing.T, count int, words string) {
	t.Helper()
	var batch strings.Builder
	for i := range count {
		fmt.Fprintf(&batch, "route add 2001:db8:%x:%x::/64 %s\n", 0x100+i>>16, i&0xffff, words)
	}
	path := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(path, []byte(batch.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	nstest.IP(t, "-6", "-batch", path)
}

// TestManyRoutesOfOthersCostLittle: of 50,000 of them, one beside a declared key changes over and over, as by router advertisements.
func TestManyRoutesOfOthersCostLittle(t *testing.T) {
	network(t)
	const count = 50_000
	addRoutes(t, count, "dev e1 proto static")
	row := Route{Destination: to("::/0"), Gateway: gateway6}
	target := newTarget(t)
	target.config.Declared = func(key Key) bool { return key == row.Key() }
	db, seen := runMirror(t, target)
	mustUpdate(t, target, row, true)
	others := func(verb, preference string) {
		t.Helper()
		nstest.IP(t, "-6", "route", verb, "default", "dev", "e1", "pref", preference)
	}
	others("append", "high")
	wantBehind(t, target, db, seen, row, "dev e1")
	asked := target.conn.Asked()
	const changes = 50
	for range changes {
		others("del", "high")
		others("append", "medium")
		others("del", "medium")
		others("append", "high")
		if !target.mirror.Load().View(t.Context()).Reliable() {
			t.Fatal("the routes of ours are in doubt")
		}
		_, _ = target.Update(t.Context(), txn(), row)
	}
	const each = 2 // the index of the device for an error, and the route that the kernel uses
	if n := target.conn.Asked() - asked; n > each*changes+changes/2 {
		t.Errorf("%d questions after %d changes", n, changes)
	}
	target.lists.mu.Lock()
	l := target.lists.byTable[listed{Inet6, MainTable}]
	if len(l.states) > 1 || l.routes < count {
		t.Errorf("of %d routes, %d are kept", l.routes, len(l.states))
	}
	target.lists.mu.Unlock()
	wantBehind(t, target, db, seen, row, "dev e1")
	others("del", "high")
	wantBehind(t, target, db, seen, row, "")
}

// TestAListingInOnePartIsWhole while other routes change all the time.
func TestAListingInOnePartIsWhole(t *testing.T) {
	network(t)
	addRoutes(t, 10, "via 2001:db8::99 proto 79")
	k := &keeper{target: newTarget(t)}
	rows, err := k.list(t.Context(), func() error {
		k.changes6.Add(1)
		return nil
	})
	if err != nil || len(rows) != 10 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestWhatATableOfManyRoutesHadIsNotAskedAgainAtOnce(t *testing.T) {
	target, at := newTarget(t), time.Now().Add(-10*time.Second)
	key, since := Route{Destination: to("::/0")}.Key(), at.Add(1)
	for name, c := range map[string]struct {
		listing listing
		same    bool
		refused bool
	}{
		"a few routes":    {listing{at: at, took: time.Hour, routes: 9}, true, false},
		"a listed key":    {listing{at: at, took: time.Hour, routes: manyRoutes, states: map[Key]state{key: {}}}, false, false},
		"an unlisted key": {listing{at: at, took: time.Hour, routes: manyRoutes}, true, true},
		"long ago":        {listing{at: at, took: 1, routes: manyRoutes}, true, false},
	} {
		target.lists.byTable = map[listed]listing{{Inet6, MainTable}: c.listing}
		if from, err := target.sparingly(key, since); from.Equal(since) != c.same || (err != nil) != c.refused {
			t.Errorf("%s: from %v, %v", name, from, err)
		}
	}
}

// A listing that is used for longer because the table is large had the route before others changed it.
func TestAnOldListingDoesNotHideWhatOthersHaveChanged(t *testing.T) {
	network(t)
	addRoutes(t, manyRoutes, "dev e1 proto static")
	a, b := Route{Destination: to("2001:db8:a::/48"), Gateway: gateway6}, Route{Destination: to("2001:db8:b::/48"), Gateway: gateway6}
	target := newTarget(t)
	target.config.Declared = func(key Key) bool { return key == a.Key() || key == b.Key() }
	runMirror(t, target)
	mustUpdate(t, target, a, true)
	mustUpdate(t, target, b, true)
	change := func(r Route) { // and keep the protocol
		shown := strings.Fields(nstest.IP(t, "-6", "route", "show", r.Destination.String()))
		nstest.IP(t, slices.Concat([]string{"-6", "route", "change"}, shown, []string{"initcwnd", "10"})...)
	}
	took := func(took time.Duration) {
		target.lists.mu.Lock()
		defer target.lists.mu.Unlock()
		which := listed{Inet6, MainTable}
		l, known := target.lists.byTable[which]
		if !known {
			t.Fatal("the table was not listed")
		}
		l.took = took
		target.lists.byTable[which] = l
	}
	change(a)
	mustUpdate(t, target, a, true)
	took(time.Minute)
	change(b)
	if result, err := target.Update(t.Context(), txn(), b); err == nil || !strings.Contains(err.Error(), "is listed again in") {
		t.Errorf("with an old listing: %v, %v", result, err)
	}
	took(0)
	mustUpdate(t, target, b, true)
	if is := nstest.IP(t, "-6", "route", "show", b.Destination.String()); strings.Contains(is, "initcwnd") {
		t.Errorf("the route is %s", is)
	}
}

// TestRoutesOfOthersAreLookedForAnew when notifications were lost: at the next listing or, if the last one was a moment ago, soon after it.
func TestRoutesOfOthersAreLookedForAnew(t *testing.T) {
	network(t)
	nstest.IP(t, "route", "add", "10.1.0.0/16", "via", gateway4.String(), "proto", "79")
	db := statedb.New()
	seen, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{target: newTarget(t), db: db, table: seen}
	list := func(want bool) (rows []Seen) {
		t.Helper()
		rows, err := k.list(t.Context(), func() error { return nil })
		if err != nil || len(rows) != 1 || rows[0].Behind != want {
			t.Errorf("%+v, %v; want behind %t", rows, err, want)
		}
		return rows
	}
	rows := list(false)
	nstest.IP(t, "route", "prepend", "10.1.0.0/16", "via", "192.0.2.98", "proto", "static")
	k.anew, k.markAt = true, time.Now().Add(time.Hour)
	list(false)
	if !k.recheckAt().Equal(k.markAt.Add(1)) {
		t.Errorf("checked again at %v", k.recheckAt())
	}
	err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := seen.Insert(txn, rows[0])
		return err
	}, seen)
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := k.recheck(t.Context()); err != nil || len(changed) != 1 || !changed[0].Behind {
		t.Errorf("changed %+v, %v", changed, err)
	}
	k.beside, k.anew, k.markAt = map[Key]struct{}{}, true, time.Time{}
	list(true)
	if k.anew || !k.recheckAt().IsZero() {
		t.Error("looked for again")
	}
}
