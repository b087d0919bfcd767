package route

import (
	"errors"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/mirror"
)

// each runs a test with a target that asks the kernel and with one that has a mirror.
func each(t *testing.T, test func(t *testing.T, target *Target)) {
	t.Helper()
	t.Run("without a mirror", func(t *testing.T) {
		network(t)
		test(t, newTarget(t))
	})
	t.Run("with a mirror", func(t *testing.T) {
		network(t)
		target := newTarget(t)
		runMirror(t, target)
		test(t, target)
	})
}

func TestNextHopsThatOthersAddedStay(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6}
		mustUpdate(t, target, row, true)
		nstest.IP(t, "-6", "route", "append", "2001:db8:1::/48", "via", "2001:db8::98", "proto", "static")
		mustDelete(t, target, row)
		got := nstest.IP(t, "-6", "route", "show", "2001:db8:1::/48")
		if !strings.Contains(got, "via 2001:db8::98 dev e0 proto static") || strings.Contains(got, "::99") {
			t.Errorf("routes are\n%s", got)
		}
	})
}

func TestAChangeLeavesTheRouteOfOthersThatCameBeforeOurs(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
		mustUpdate(t, target, row, true)
		nstest.IP(t, "route", "prepend", "10.1.0.0/16", "via", "192.0.2.98", "proto", "static")
		row.Gateway = ip("192.0.2.97")
		if _, err := target.Update(t.Context(), txn(), row); err != nil && !errors.Is(err, ErrForeign) {
			t.Error(err)
		}
		if got := nstest.IP(t, "route", "show", "10.1.0.0/16"); !strings.Contains(got, "via 192.0.2.98 dev e0 proto static") {
			t.Errorf("routes are\n%s", got)
		}
		mustDelete(t, target, row)
	})
}

func TestARouteWithoutAMetricIsNotTakenForAnother(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		nstest.IP(t, "route", "add", "10.1.0.0/16", "via", "192.0.2.98", "proto", "dhcp")
		second := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Metric: 100}
		mustUpdate(t, target, second, true)
		mustDelete(t, target, Route{Destination: to("10.1.0.0/16"), Gateway: gateway4})
		wantObserved(t, target, "10.1.0.0/16 metric 100")
	})
}

func TestAReplacementOfAServiceIsNotThatOfOurs(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
		mustUpdate(t, target, row, true)
		for _, gateway := range []string{"192.0.2.97", "192.0.2.98"} {
			nstest.IP(t, "route", "replace", "10.1.0.0/16", "tos", "0x10", "via", gateway, "proto", "static")
		}
		mustUpdate(t, target, row, false)
		mustDelete(t, target, row)
		if got := nstest.IP(t, "route", "show", "10.1.0.0/16"); strings.Contains(got, "proto 79") || strings.Count(got, "\n") != 1 {
			t.Errorf("routes are\n%s", got)
		}
	})
}

func TestIPv6RoutesAreListedWhileNoneChanges(t *testing.T) {
	network(t)
	const count = 1000 // more than the kernel lists in one part
	addRoutes(t, count, "via 2001:db8::99 proto 79")
	for name, c := range map[string]struct {
		changes int
		want    error
	}{
		"none":     {0, nil},
		"a few":    {3, nil},
		"for ever": {1 << 30, mirror.ErrChanging},
	} {
		t.Run(name, func(t *testing.T) {
			k, calls := &keeper{target: newTarget(t)}, 0
			rows, err := k.list(t.Context(), func() error {
				if calls++; calls%2 == 0 && calls/2 <= c.changes { // after a listing
					k.changes6.Add(1)
				}
				return nil
			})
			if !errors.Is(err, c.want) || (err == nil) != (len(rows) == count) {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		})
	}
}

func TestADefaultRouteOfOthersIsSeenBeforeTheUpdate(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		nstest.IP(t, "route", "add", "default", "via", "192.0.2.98", "proto", "dhcp")
		rows := []Route{
			{Destination: Destination{isDefault: true}, Gateway: gateway4},
			{Destination: Destination{isDefault: true}, Gateway: gateway4, Metric: 7},
			{Destination: Destination{isDefault: true}, Gateway: gateway6},
		}
		results := target.DiffBatch(t.Context(), txn(), rows)
		if err := results[0].Err; !errors.Is(err, ErrForeign) {
			t.Errorf("Diff of a row whose key others hold: %v", err)
		}
		for i, result := range results[1:] {
			if result.Err != nil || len(result.Changes) == 0 {
				t.Errorf("Diff of %v: %+v", rows[1+i], result)
			}
		}
	})
}

func TestManyRoutesAreComparedWithoutAQuestionEach(t *testing.T) {
	network(t)
	rows := many(4000)
	target := newTarget(t)
	runMirror(t, target)
	for i := range rows {
		rows[i].Device = "e0"
	}
	batches(rows, func(rows []Route) { wantBatch(t, target.UpdateBatch(t.Context(), txn(), rows), true) })
	asked, requested := target.conn.Asked(), target.conn.Requested()
	for i, result := range target.DiffBatch(t.Context(), txn(), rows) {
		if result.Err != nil || len(result.Changes) > 0 {
			t.Fatalf("%v: %+v", rows[i], result)
		}
	}
	if asked, requested := target.conn.Asked()-asked, target.conn.Requested()-requested; asked > 1 || requested > 0 {
		t.Errorf("%d questions and %d requests to compare %d routes by one device", asked, requested, len(rows))
	}
}
