package hivetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/hivetest"
)

func TestHealthOfAUnitTestTellsWhatWasReported(t *testing.T) {
	h := hivetest.NewHealth(t)
	if s, ok := h.Of(); ok {
		t.Errorf("before the first report: %+v", s)
	}
	h.Degraded("no disk", errors.New("full"))
	link, err := h.NewScope("eth0.100")
	if err != nil {
		t.Fatal(err)
	}
	link.OK("up")
	if s, ok := h.Of(); !ok || s.Level != health.Degraded || s.Message != "no disk" || s.Error != "full" {
		t.Errorf("got %+v, %t", s, ok)
	}
	if s, ok := h.Of("eth0.100"); !ok || s.Level != health.OK || s.Message != "up" {
		t.Errorf("got %+v, %t", s, ok)
	}
	link.Close()
	if s, ok := h.Of("eth0.100"); ok {
		t.Errorf("after its end: %+v", s)
	}
}

func TestTestWaitsUntilTheHiveIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		h := hivetest.New(t, nil, cell.Provide(func() hive.ConditionOut {
			return hive.NewCondition("clock", func() []string {
				if time.Since(began) < 10*time.Second {
					return []string{"noon"}
				}
				return nil
			})
		}))
		hivetest.Start(t, h)
		hivetest.WaitReady(t, h)
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
