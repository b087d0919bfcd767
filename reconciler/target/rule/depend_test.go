package rule

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/statedb"
)

func TestARuleWaitsForTheRoutesOfItsTableUntilTheyWereTried(t *testing.T) {
	db := statedb.New()
	routes, err := statedb.NewTable(db, statedb.Schema[route.Route]{ // whose status a test may write
		Name: "routes", Primary: route.ByKey, Secondary: []statedb.Indexer[route.Route]{route.ByTable},
	})
	if err != nil {
		t.Fatal(err)
	}
	to := func(prefix string, table route.Table, status reconciler.Status) {
		t.Helper()
		err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := routes.Insert(txn, route.Route{Destination: route.To(netip.MustParsePrefix(prefix)), Device: "e0", Table: table, Status: status})
			return err
		}, routes)
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	pending, done, failed := reconciler.Status{}, reconciler.Status{}.After(nil, now), reconciler.Status{}.After(errors.New("no"), now)
	to("10.1.0.0/16", route.MainTable, pending)
	to("10.2.0.0/16", 100, done)
	to("10.3.0.0/16", 100, failed)
	to("10.4.0.0/16", 101, done)
	to("10.5.0.0/16", 101, pending)
	to("2001:db8::/32", 102, pending)

	for name, c := range map[string]struct {
		row          Rule
		untried, all []string
	}{
		"the table main":                {Rule{Priority: 1}, nil, nil},
		"no table":                      {Rule{Priority: 1, Action: Prohibit}, nil, nil},
		"a table without documents":     {Rule{Priority: 1, Table: 7}, nil, nil},
		"one of routes that were tried": {Rule{Priority: 1, Table: 100}, nil, []string{"10.2.0.0/16 table 100", "10.3.0.0/16 table 100"}},
		"one of a route that is pending": {
			Rule{Priority: 1, Table: 101}, []string{"10.5.0.0/16 table 101"}, []string{"10.4.0.0/16 table 101", "10.5.0.0/16 table 101"},
		},
		"one of another family's routes": {Rule{Priority: 1, Table: 102}, nil, nil},
		"one of its family's routes": {
			Rule{Priority: 1, Table: 102, From: prefix("2001:db8::/32")}, []string{"2001:db8::/32 table 102"}, []string{"2001:db8::/32 table 102"},
		},
	} {
		var found [][]string
		queries := needed(c.row)
		if queries == nil {
			queries = func(func(statedb.Query[route.Route]) bool) {}
		}
		for query := range queries {
			var keys []string
			for row := range routes.List(db.ReadTxn(), query) {
				keys = append(keys, row.Key().String())
			}
			found = append(found, keys)
		}
		want := [][]string{c.untried, c.all}
		if found == nil && c.all == nil {
			continue
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var kinds []reconciler.StatusKind
	for _, status := range []reconciler.Status{pending, done, failed} {
		kinds = append(kinds, tried(route.Route{Status: status}).Kind())
	}
	if want := []reconciler.StatusKind{reconciler.Pending, reconciler.Done, reconciler.Done}; !slices.Equal(kinds, want) {
		t.Errorf("as far as rules wait for them, routes are %v, expected %v", kinds, want)
	}
}

// At a start, a delete may be looked at before the kernel has been.
func TestNothingIsDeletedBeforeItIsKnownWhatTheKernelHas(t *testing.T) {
	db := statedb.New()
	routes, err := statedb.NewTable(db, route.Schema())
	kernelRoutes, errKernelRoutes := statedb.NewTable(db, route.SeenSchema())
	rules, errRules := statedb.NewTable(db, Schema())
	kernelRules, errKernelRules := statedb.NewTable(db, SeenSchema())
	if err := errors.Join(err, errKernelRoutes, errRules, errKernelRules); err != nil {
		t.Fatal(err)
	}
	var routesSource, rulesSource *statedb.Source
	change := func(fn func(txn *statedb.WriteTxn) error) {
		t.Helper()
		if err := db.Update(t.Context(), fn, routes, kernelRoutes, rules, kernelRules); err != nil {
			t.Fatal(err)
		}
	}
	change(func(txn *statedb.WriteTxn) (err error) {
		if routesSource, err = kernelRoutes.RegisterSource(txn, "kernel"); err != nil {
			return err
		}
		if rulesSource, err = kernelRules.RegisterSource(txn, "kernel"); err != nil {
			return err
		}
		_, _, err = routes.Insert(txn, route.Route{Destination: route.To(netip.MustParsePrefix("0.0.0.0/0")), Device: "e0"})
		_, _, errRule := rules.Insert(txn, Rule{Priority: 100, Table: 200})
		return errors.Join(err, errRule)
	})
	check := func(when string, wantRoute, wantRule bool) {
		t.Helper()
		txn := db.ReadTxn()
		ofRule := NewLostRoutes(db, statedb.ReadOnly(routes), statedb.ReadOnly(kernelRoutes)).deletedAfter()
		if got := slices.Collect(ofRule.Rows(txn, routes, Rule{Priority: 100, Table: 100})); (len(got) > 0) != wantRoute {
			t.Errorf("%s: the rule waits for %q", when, got)
		}
		ofRoute := RoutesDeletedAfter(db, statedb.ReadOnly(rules), statedb.ReadOnly(kernelRules))[0]
		if got := slices.Collect(ofRoute.Rows(txn, rules, route.Route{Destination: route.To(netip.MustParsePrefix("0.0.0.0/0")), Device: "e0", Table: 100})); (len(got) > 0) != wantRule {
			t.Errorf("%s: the route waits for %q", when, got)
		}
	}
	check("before the kernel was looked at", true, true)
	change(func(txn *statedb.WriteTxn) error {
		return errors.Join(routesSource.Initialized(txn), rulesSource.Initialized(txn))
	})
	check("there is nothing", false, false)
	change(func(txn *statedb.WriteTxn) error {
		return errors.Join(routesSource.Incomplete(txn, "messages were lost"), rulesSource.Incomplete(txn, "messages were lost"))
	})
	check("messages were lost", false, false) // it is in doubt for as long as others change routes all the time
}

func TestARuleStaysForTheRoutesThatMayBeInThePlaceOfThoseOfItsTable(t *testing.T) {
	const everywhere = "0.0.0.0/0"
	old := route.Route{Destination: route.To(netip.MustParsePrefix(everywhere)), Device: "e0", Table: 100}
	moved := old
	moved.Table, moved.Metric, moved.Device = route.MainTable, 50, "e9"
	elsewhere := moved
	elsewhere.Table = 200
	type step struct {
		wait     time.Duration
		put, del []route.Route
	}
	for name, c := range map[string]struct {
		start []route.Route
		steps []step
		want  bool
	}{
		"it moves":                       {[]route.Route{old}, []step{{time.Hour, []route.Route{moved}, []route.Route{old}}}, true},
		"it moves soon after the start":  {[]route.Route{old}, []step{{time.Minute, []route.Route{moved}, []route.Route{old}}}, true},
		"it has moved before the start":  {[]route.Route{moved}, nil, true},
		"the other one first":            {[]route.Route{old}, []step{{time.Hour, []route.Route{moved}, nil}, {time.Hour, nil, []route.Route{old}}}, true},
		"the other one last":             {[]route.Route{old}, []step{{time.Hour, nil, []route.Route{old}}, {time.Hour, []route.Route{moved}, nil}}, true},
		"it stays":                       {[]route.Route{old}, []step{{time.Hour, []route.Route{moved}, nil}}, false},
		"it is there again":              {[]route.Route{old}, []step{{time.Hour, []route.Route{moved}, []route.Route{old}}, {time.Hour, []route.Route{old}, nil}}, false},
		"the other one was there before": {[]route.Route{old, elsewhere}, []step{{time.Hour, nil, []route.Route{old}}}, false},
		"the other one was there before it": {
			[]route.Route{elsewhere}, []step{{time.Hour, []route.Route{old}, nil}, {time.Hour, nil, []route.Route{old}}}, false,
		},
		"the other one was there before, and it goes soon after the start": {
			[]route.Route{old, elsewhere}, []step{{time.Minute, nil, []route.Route{old}}}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := statedb.New()
				routes, err := statedb.NewTable(db, route.Schema())
				kernelRoutes, errKernel := statedb.NewTable(db, route.SeenSchema())
				if err := errors.Join(err, errKernel); err != nil {
					t.Fatal(err)
				}
				change := func(put, del []route.Route) {
					t.Helper()
					err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error { return mirror.Write(txn, routes, put, del) }, routes)
					if err != nil {
						t.Fatal(err)
					}
				}
				source, err := sourceOf(t, db, routes)
				if err != nil {
					t.Fatal(err)
				}
				lost := NewLostRoutes(db, statedb.ReadOnly(routes), statedb.ReadOnly(kernelRoutes))
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- lost.Run(ctx) }()
				change(c.start, nil)
				err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
					_, _, err := kernelRoutes.Insert(txn, route.Seen{Key: old.Key()})
					return errors.Join(err, source.Initialized(txn))
				}, routes, kernelRoutes)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for _, s := range c.steps {
					time.Sleep(s.wait)
					change(s.put, s.del)
					synctest.Wait()
				}
				waits := slices.Collect(lost.deletedAfter().Rows(db.ReadTxn(), routes, Rule{Priority: 100, Table: 100}))
				if (len(waits) > 0) != c.want {
					t.Errorf("the rule waits for %q", waits)
				}
				if stop(); <-done != nil {
					t.Error("Run failed")
				}
			})
		})
	}
}

// sourceOf registers a source of a table.
func sourceOf[Row any](t *testing.T, db *statedb.DB, table *statedb.RWTable[Row]) (source *statedb.Source, err error) {
	t.Helper()
	err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		source, err = table.RegisterSource(txn, "documents")
		return err
	}, table)
	return source, err
}
