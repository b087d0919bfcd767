package mirror

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestARecheckPutsRowsIntoACompleteTable(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		var due time.Time
		k.mirror.config.RecheckAt = func() time.Time { return due }
		k.mirror.config.Recheck = func(context.Context) ([]thing, error) {
			due = time.Time{}
			return []thing{{Name: "a", Size: 9}}, nil
		}
		due = time.Now().Add(time.Minute)
		start()
		pass(30 * time.Second)
		k.want(map[string]int{"a": 1, "b": 1})
		k.wantSource(true, "")
		pass(time.Minute)
		k.want(map[string]int{"a": 9, "b": 1})
		if k.listings != 1 {
			t.Errorf("%d listings", k.listings)
		}
	})
}

func TestAFailedRecheckIsRepeatedAndReported(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		due, failures := time.Now().Add(time.Minute), 2
		k.mirror.config.RecheckAt = func() time.Time { return due }
		k.mirror.config.Recheck = func(context.Context) ([]thing, error) {
			if failures--; failures >= 0 {
				due = time.Now().Add(time.Minute)
				return nil, errors.New("interrupted")
			}
			due = time.Time{}
			return []thing{{Name: "a", Size: 9}}, nil
		}
		start()
		pass(90 * time.Second)
		k.want(map[string]int{"a": 1, "b": 1})
		k.wantSource(true, "")
		k.mu.Lock()
		told := k.told[len(k.told)-1]
		k.mu.Unlock()
		if !strings.Contains(told, "interrupted") {
			t.Errorf("health was told %q", told)
		}
		pass(2 * time.Minute)
		k.want(map[string]int{"a": 9, "b": 1})
		if k.listings != 1 {
			t.Errorf("%d listings", k.listings)
		}
	})
}

// What a recheck finds out, a listing may find out, too.
func TestAFailedRecheckIsNotReportedAfterAListingThatMakesItNeedless(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		due := time.Now().Add(time.Minute)
		k.mirror.config.RecheckAt = func() time.Time { return due }
		k.mirror.config.Recheck = func(context.Context) ([]thing, error) {
			due = time.Now().Add(time.Hour)
			return nil, errors.New("interrupted")
		}
		start()
		pass(2 * time.Minute)
		due = time.Time{}
		k.doubt()
		pass(time.Minute)
		k.mu.Lock()
		defer k.mu.Unlock()
		if told := k.told[len(k.told)-1]; told != "ok: up to date" {
			t.Errorf("health was told %q", told)
		}
	})
}
