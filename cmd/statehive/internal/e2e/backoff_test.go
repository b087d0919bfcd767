package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// unreachable is a route whose gateway is in no network of ours.
const unreachable = "kind: route\ndestination: 203.0.113.0/24\ngateway: 172.31.0.1\n"

func TestRouteThroughAMissingGatewayIsRetriedWithGrowingDelay(t *testing.T) {
	t.Parallel()
	w := testWorld(t, users()[0])
	must(t, w.setup(map[string]string{"cable.yaml": cable, "route.yaml": unreachable}))
	must(t, w.start(t.Context()))

	var before notDone
	for _, attempts := range []int{2, 5} {
		attempts = max(attempts, before.Attempts+1)
		var now notDone
		must(t, until(t.Context(), patience, func(ctx context.Context) (err error) {
			now, err = w.notDone(ctx)
			if err == nil && now.Attempts < attempts {
				err = fmt.Errorf("%d attempts, waiting for %d", now.Attempts, attempts)
			}
			return err
		}))
		if now.Operation != "update" || !now.NextDue.After(before.NextDue) {
			t.Errorf("not done: %+v, before: %+v", now, before)
		}
		before = now
	}
	// Jitter of a fifth cannot hide that delays double, and a retry is late at most.
	times := w.attempts(t, before.Key)
	for i := 1; i < 5; i++ {
		if delay, least := times[i].Sub(times[i-1]), 80*time.Millisecond<<(i-1); delay < least {
			t.Errorf("attempt %d came %v after the one before, expected at least %v", i+1, delay, least)
		}
	}
	must(t, w.stop())
}

// notDone is a row of the table not-done.
type notDone struct {
	Key       string
	Operation string
	Attempts  int
	NextDue   time.Time
}

// notDone returns the only row of the table.
func (w *world) notDone(ctx context.Context) (notDone, error) {
	r := w.statehive(ctx, "get", "not-done", "-o", "json")
	if r.err != nil {
		return notDone{}, r.failure()
	}
	var rows []struct{ Object notDone }
	if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil {
		return notDone{}, err
	}
	if len(rows) != 1 {
		return notDone{}, errors.New("expected one row:\n" + r.stdout)
	}
	return rows[0].Object, nil
}

// attempts returns when the last updates of the only route have failed.
func (w *world) attempts(t *testing.T, route string) []time.Time {
	t.Helper()
	r := w.statehive(t.Context(), append([]string{"explain", "routes", "-o", "json"}, strings.Fields(route)...)...)
	must(t, r.failure())
	var explanation struct{ LastAttempts []struct{ At time.Time } }
	must(t, json.Unmarshal([]byte(r.stdout), &explanation))
	var times []time.Time
	for _, attempt := range explanation.LastAttempts {
		times = append(times, attempt.At)
	}
	if len(times) < 5 {
		t.Fatalf("%d failed attempts are known, expected 5", len(times))
	}
	return times
}
